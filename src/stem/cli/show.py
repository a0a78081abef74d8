"""Print tables for people and JSON for scripts. Nothing that a store holds can move the cursor or colour the screen."""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import click

from stem.core.escaping import plain as plain
from stem.core.escaping import plain_json

_GAP = "  "


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
    """One line a row, every value whole: a terminal wraps the line, and an id or a moment can still be copied. Fitting it
    to the screen would fold the one and cut off the other."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        click.echo(empty)
        return
    sides = [str.rjust if all(cell.isdigit() for cell in column) else str.ljust for column in zip(*cells, strict=True)]
    widths = [max(map(_width, column)) for column in zip(columns, *cells, strict=True)]

    def line(row: Sequence[str]) -> str:
        # `rjust` counts characters, and some are two columns wide, or none.
        fits = zip(row, sides, widths, strict=True)
        return _GAP.join(side(cell, width - _width(cell) + len(cell)) for cell, side, width in fits).rstrip()

    click.echo(line(columns) if os.environ.get("NO_COLOR") else click.style(line(columns), bold=True))
    for row in cells:
        click.echo(line(row))


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
    click.echo(plain_json(encoded.decode()))


def short(text: str, width: int) -> str:
    """On one line, cut where it would be wider."""
    whole = plain(" ".join(text.split()))
    return whole if len(whole) <= width else whole[: width - 1] + "…"


def _cell(value: object) -> str:
    return "" if value is None else plain(str(value))


def _width(text: str) -> int:
    """In columns of the screen."""
    if text.isascii():
        return len(text)  # nearly always, and then rich need not be imported
    from rich.cells import cell_len

    return cell_len(text)
