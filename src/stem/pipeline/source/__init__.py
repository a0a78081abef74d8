"""`spark.read.format("stem")`: tables and streams of a store."""
