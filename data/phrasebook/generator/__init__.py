"""Draws German-English sentence pairs with their word links from words and paired rules."""
