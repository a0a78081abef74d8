"""Real workers in tests."""
