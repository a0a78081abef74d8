"""`df.write.format("stem")`: one task per row."""
