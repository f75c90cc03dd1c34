"""Scores with significance tests, word alignments and their error rate, expected quality."""
