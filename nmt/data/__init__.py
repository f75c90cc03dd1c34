"""Sentence pairs: where they come from, which are trained on, and how they are tokenized and
batched."""
