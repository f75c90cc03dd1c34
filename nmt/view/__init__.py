"""Heatmaps, curves, HTML pages, TensorBoard and progress; the only package that imports TensorBoard
and matplotlib."""
