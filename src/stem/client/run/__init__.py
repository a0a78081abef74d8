"""Running one attempt of a task."""
