"""Stores in tests: short calls, comparisons, outages."""
