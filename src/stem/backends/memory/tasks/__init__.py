"""The broker's verbs in memory: push, claim, settle, reclaim; dead letters and steps."""
