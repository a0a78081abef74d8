"""The Python API: the app, its tasks, and handles to their results."""
