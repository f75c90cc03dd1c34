"""Scores: BLEU and chrF with significance tests, the alignment error rate, and weights between
words."""
