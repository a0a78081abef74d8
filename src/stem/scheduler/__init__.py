"""The scheduler: a calendar, and a process that enqueues what is due."""
