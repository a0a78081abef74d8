"""Stem inside web frameworks: one module per framework, the only ones that import it."""
