"""The control commands, one file each. Every module of this folder is imported, and registers its command."""
