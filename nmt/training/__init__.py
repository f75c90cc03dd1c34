"""Training: the loop, a single update, the loss, learning rates, checkpoints, validation."""
