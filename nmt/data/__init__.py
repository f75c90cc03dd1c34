"""What training reads: placeholders, subword pieces, ids on disk, noise and batches."""
