"""What operators can do, one file per noun: through `app.control`, the scheduler's entries, and the store's own verbs."""
