"""What people type: one file a noun."""
