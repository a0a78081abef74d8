"""Recurring work. So far only its calendar: the process that enqueues is not there yet."""
