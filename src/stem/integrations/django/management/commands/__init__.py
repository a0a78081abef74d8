"""Commands of manage.py: one file per command."""
