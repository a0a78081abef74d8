"""The seams where things may be swapped, one a file. What an implementation promises stands in the docstrings.

All stores are synchronous and safe to share between threads; after a fork, open a new one. A child that was forked
while the file of an SQLite store was in use, by a caller's own connection say, is refused. Every call that may touch a
network has a deadline and raises StoreUnavailable past it; a store that answers "no" raises StoreRefused.
"""
