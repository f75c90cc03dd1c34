"""Showing the decoder the right words, and correcting it."""
