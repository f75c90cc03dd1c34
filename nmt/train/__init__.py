"""Training: the loop, one update, the loss, learning rates, checkpoints, validation."""
