"""Letting a trained model write alone."""
