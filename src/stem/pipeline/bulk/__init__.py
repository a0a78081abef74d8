"""One task over a whole DataFrame, run on the executors."""
