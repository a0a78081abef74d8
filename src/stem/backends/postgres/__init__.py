"""The postgres store."""
