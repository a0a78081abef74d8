"""The interfaces that a store, an engine or a control transport implements, one per file. The docstrings are the promises.

For every store:

- Methods are synchronous and safe to call from several threads.
- After a fork, open a new store. A child that was forked while an SQLite file was in use, for example by a connection of the
  caller's own, is refused.
- Every call that may touch a network has a deadline. Past it, it raises StoreUnavailable. A store that is reachable but cannot do
  what it is asked raises StoreRefused.
- All times are by the store's clock, `Upkeep.now`.

`tests/contract` runs one suite over all implementations.
"""
