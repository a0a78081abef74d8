"""What runs in an isolate, and what passes between it and its supervisor."""
