"""Settings: their declarations, sources and effective values."""
