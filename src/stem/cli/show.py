"""Print tables for people and JSON for scripts. Nothing that a store holds can move the cursor or colour the screen."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

# A table is as wide as its values: a terminal wraps the line, and an id or a moment can still be copied whole. Fitting it
# to the screen would fold the one and cut off the other.
_WIDTH = 100_000


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """One line a row, every value whole."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        click.echo(empty)
        return
    from rich.table import Table
    from rich.text import Text

    printed = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, column in enumerate(columns):
        is_count = all(row[number].isdigit() for row in cells)
        printed.add_column(column, justify="right" if is_count else "left", no_wrap=True)
    for row in cells:
        printed.add_row(*map(Text, row))
    _print(printed)


def facts(pairs: Mapping[str, object]) -> None:
    """One fact a line, its name before it; what is None is left out."""
    width = max(map(len, pairs))
    for name, value in pairs.items():
        if value is not None:
            click.echo(f"{name:<{width}}  {_cell(value)}".rstrip())


def stack(lines: str) -> None:
    """A traceback that a task left, below the facts."""
    if lines:
        click.echo("\n" + "\n".join(map(plain, lines.splitlines())))


def more(command: str) -> None:
    click.echo(f"\nMore:\n  {command}")


def json(value: Any) -> None:
    import msgspec

    encoded = msgspec.json.encode(value)
    with suppress(
        RecursionError
    ):  # arguments may be nested as deep as can be; unindented they are as good for a script
        encoded = msgspec.json.format(encoded, indent=2)
    click.echo(encoded.decode())


def plain(text: str) -> str:
    """Control characters spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def _cell(value: object) -> str:
    return "" if value is None else plain(str(value))


def _print(printable: Any) -> None:
    from io import StringIO

    from rich.console import Console

    is_screen = sys.stdout.isatty()
    buffer = StringIO()  # and not stdout itself: rich has an exit code of its own for a closed pipe
    console = Console(
        file=buffer,
        width=_WIDTH,
        force_terminal=is_screen,
        color_system=None if os.environ.get("NO_COLOR") or not is_screen else "auto",
        highlight=False,
    )
    console.print(printable)
    for line in buffer.getvalue().splitlines():
        click.echo(line.rstrip())
