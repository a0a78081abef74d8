"""The command line: one file or folder per noun, and `support` for what they share.

`main` runs a command. Heavy imports stay inside the commands, so that help is instant.
"""
