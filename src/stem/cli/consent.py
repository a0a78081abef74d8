"""Ask before something is lost for good."""

import sys

import click

from stem.core.errors import UsageError


def is_given(question: str, *, yes: bool) -> bool:
    """By --yes, or by whoever sits at the terminal. Without either, UsageError: a script must say what it means."""
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("There is no terminal to ask at; add --yes to go ahead.")
    return click.confirm(question, err=True)
