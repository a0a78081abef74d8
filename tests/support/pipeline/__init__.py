"""What tests of the pipeline need beside Spark."""
