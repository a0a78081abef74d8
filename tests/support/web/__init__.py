"""Servers and clients for tests over HTTP."""
