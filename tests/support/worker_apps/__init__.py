"""Apps that real workers import; their store comes from the environment."""
