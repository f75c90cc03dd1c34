"""Text: where sentence pairs come from, which are kept, and how they are split into sets."""
