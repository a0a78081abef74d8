"""The event log and bulk history in an SQLite file."""
