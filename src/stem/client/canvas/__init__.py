"""Composition: chains, groups, chords and workflows of tasks."""
