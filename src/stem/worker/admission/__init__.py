"""What may run: revokes, rate limits, at-most-once locks and queue checks."""
