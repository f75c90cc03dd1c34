"""Heatmaps, curves, HTML pages, TensorBoard and progress: only here matplotlib is imported."""
