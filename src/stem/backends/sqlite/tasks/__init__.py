"""The broker's verbs on SQLite: push, claim, settle, reclaim."""
