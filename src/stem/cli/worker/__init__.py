"""`stem worker`: start, inspect and control workers."""
