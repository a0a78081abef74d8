"""Durable background tasks for Python."""
