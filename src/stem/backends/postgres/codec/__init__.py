"""Encode values as columns and cursors as numbers, and decode rows."""
