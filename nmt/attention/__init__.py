"""Attention: scores, windows, and the kernels that turn them into weights and contexts."""
