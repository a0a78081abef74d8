"""`stem observe`: what happens now, in one table per noun; the events as they happen."""
