"""The background duties of a worker, one thread each, and what they share."""
