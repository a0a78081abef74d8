"""Ask before something is lost for good."""

import sys

import click

from stem.core.errors import UsageError


def is_confirmed(question: str, *, yes: bool) -> bool:
    """Return whether --yes or the user at the terminal agrees. Raises UsageError without a terminal: a script must say --yes."""
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("There is no terminal to ask at; add --yes to go ahead.")
    return click.confirm(question, err=True)
