"""Carrying a finished translator out of the house."""
