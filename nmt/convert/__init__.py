"""Trained models converted for other runtimes."""
