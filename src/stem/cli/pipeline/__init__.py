"""`stem pipeline`: the data pipeline on Spark."""
