"""Translating with a trained model: search, choice among its results, and forced decoding."""
