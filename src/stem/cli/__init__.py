"""What people type: one file a noun.

`main` runs a command, `failure` says what went wrong, `session` opens what flags and environment name, `times` reads
durations and moments, `show` prints tables and JSON. Heavy imports stay inside the commands, so that help is instant.
"""
