"""What your code calls: the app, its tasks, and handles to their results."""
