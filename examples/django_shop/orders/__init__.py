"""Orders: the model, the view that takes them, and what is done about them in the background."""
