"""The seams where things may be swapped, one a file. What an implementation promises stands in the docstrings.

All stores are synchronous and safe to share between threads; after a fork, open a new one. Every call that may touch a
network has a deadline and raises StoreUnavailable past it; a store that answers "no" raises StoreRefused.
"""
