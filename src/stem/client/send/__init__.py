"""Sending calls, and handles to their results."""
