"""Schedules: declared in code or in a file, and checked where they are declared."""
