"""Encoder-decoders behind one interface, chosen by the configuration."""
