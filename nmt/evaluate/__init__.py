"""What was written and where was looked, compared with what people wrote and drew."""
