"""The ways by which commands and replies travel."""
