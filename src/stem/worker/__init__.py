"""Runs tasks: a supervisor that talks to the store, and isolates that run user code."""
