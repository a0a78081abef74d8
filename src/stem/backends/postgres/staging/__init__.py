"""Staged pushes in Postgres: many tasks that become visible at once."""
