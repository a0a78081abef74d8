"""The redis store."""
