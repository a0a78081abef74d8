"""Connections to an SQLite file: opening, pooling, transactions, wake-ups, and errors."""
