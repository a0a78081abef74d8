"""Connections to Postgres: opening, pooling, executing, and errors."""
