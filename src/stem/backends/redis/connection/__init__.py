"""Connections to Redis: opening, pooling, subscriptions, and errors."""
