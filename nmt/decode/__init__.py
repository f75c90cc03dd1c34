"""Decoding with a trained model: beam search, text to text, and forced decoding of given
targets."""
