"""A translation service over HTTP with the API of LibreTranslate, and a page for people."""
