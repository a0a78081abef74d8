"""The interfaces that steer workers: heartbeats, mailboxes, revokes, and the transports of commands."""
