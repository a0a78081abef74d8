"""The scheduler: a process that enqueues what is due."""
