"""`stem top`: queues, workers, tasks and failures on one live screen."""
