"""Give a command several options at once, and the one that all of them take."""

from collections.abc import Callable

import click

Command = Callable[..., None]
Option = Callable[[Command], Command]


def with_options(*options: Option) -> Option:
    """Give a command these options; its help lists them in this order."""

    def decorate(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


json_output = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
