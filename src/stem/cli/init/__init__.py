"""`stem init`: write a small project that works."""
