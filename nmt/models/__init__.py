"""Encoder-decoders that can be changed for one another by one word."""
