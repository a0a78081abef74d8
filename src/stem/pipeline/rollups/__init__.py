"""What is counted of each minute: a file a rollup, `gold` for all of them together."""
