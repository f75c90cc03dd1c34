"""Where sentence pairs come from, which may pass, and how they are cut into pieces and seated in batches."""
