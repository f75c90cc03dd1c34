"""Everything that can be seen: heatmaps, TensorBoard, progress. The only room that knows TensorBoard and matplotlib."""
