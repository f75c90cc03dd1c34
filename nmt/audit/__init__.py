"""What a person should know about a corpus before training on it: `nmt audit`."""
