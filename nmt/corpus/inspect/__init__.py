"""Checks of sentence pairs, many lines at a time: what `nmt audit` and the corpus preparation
report."""
