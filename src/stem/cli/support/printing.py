"""Print tables for people and JSON for scripts. No text from a store can move the cursor or colour the screen."""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from stem.core.text.escaping import plain as plain
from stem.core.text.escaping import plain_json

if TYPE_CHECKING:
    from stem.core.record import TaskError

_GAP = "  "
_LEAST_WIDTH = 8  # of a column that shrinks
STATE_COLOURS = {
    **dict.fromkeys(("succeeded", "ok", "on"), "green"),
    **dict.fromkeys(("running", "started"), "cyan"),
    **dict.fromkeys(("retried", "paused", "draining", "late", "throttled", "requeued"), "yellow"),
    **dict.fromkeys(("failed", "dead", "wedged", "silent", "dead-lettered"), "red"),
    **dict.fromkeys(("cancelled", "revoked", "expired", "disabled", "over"), "bright_black"),
}


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    empty: str,
    shrink: Sequence[str] = (),
    notes: Sequence[str] = (),
    states: Sequence[str] = (),
) -> None:
    """Print one line per row within the width of the screen. Columns in `shrink` are cut if necessary, the widest first;
    others stay whole, so that an id or a time can be copied. `notes` are printed below their rows. Columns in `states` are
    coloured on a terminal."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        click.echo(empty)
        return
    sides = [str.rjust if all(cell.isdigit() for cell in column) else str.ljust for column in zip(*cells, strict=True)]
    widths = [max(map(_width, column)) for column in zip(columns, *cells, strict=True)]
    widths = _fitting(widths, [columns.index(name) for name in shrink])

    def line(row: Sequence[str], *, is_coloured: bool = False) -> str:
        # `rjust` counts characters, and some are two columns wide, or none.
        fits = [(_cut(cell, width), side, width) for cell, side, width in zip(row, sides, widths, strict=True)]
        padded = [side(cell, width - _width(cell) + len(cell)) for cell, side, width in fits]
        for index in told if is_coloured else ():
            padded[index] = padded[index].replace(row[index], coloured(row[index]), 1)
        return _GAP.join(padded).rstrip()

    told = [columns.index(name) for name in states]
    click.echo(line(columns) if os.environ.get("NO_COLOR") else click.style(line(columns), bold=True))
    for number, row in enumerate(cells):
        click.echo(line(row, is_coloured=True))
        if number < len(notes) and notes[number]:
            click.echo(f"{_GAP}{_cut(_cell(notes[number]), screen_width() - len(_GAP))}")


def coloured(state: str) -> str:
    """Colour a state, unless NO_COLOR is set; `click.echo` takes colours out where there is no terminal."""
    colour = None if os.environ.get("NO_COLOR") else STATE_COLOURS.get(state)
    return state if colour is None else click.style(state, fg=colour)


def screen_width() -> int:
    """Return the columns of the terminal; 80 if there is none and COLUMNS is not set."""
    return shutil.get_terminal_size((80, 24)).columns


def screen_height() -> int:
    """Return the lines of the terminal; 24 if there is none and LINES is not set."""
    return shutil.get_terminal_size((80, 24)).lines


def _fitting(widths: Sequence[int], shrinking: Sequence[int]) -> list[int]:
    fitted = list(widths)
    excess = sum(fitted) + len(_GAP) * (len(fitted) - 1) - screen_width()
    while excess > 0 and shrinking:
        widest = max(shrinking, key=lambda index: fitted[index])
        if fitted[widest] <= _LEAST_WIDTH:
            break
        fitted[widest] -= 1
        excess -= 1
    return fitted


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    while _width(text) > width - 1:
        text = text[: width - 1] if len(text) > width else text[:-1]
    return f"{text}…"


def facts(pairs: Mapping[str, object]) -> None:
    """Print one named value per line; None is left out."""
    width = max(map(len, pairs))
    for name, value in pairs.items():
        if value is not None:
            click.echo(f"{name:<{width}}  {_cell(value)}".rstrip())


def stack(lines: str) -> None:
    """Print the traceback of a task below the facts."""
    if lines:
        click.echo("\n" + "\n".join(map(plain, lines.splitlines())))


def error(failure: "TaskError | None") -> str:
    """Return an error on one line."""
    return "" if failure is None else " ".join(f"{failure.type}: {failure.message}".split())


def progress(told: object) -> str:
    """Return the progress that a task has reported as text: `40 % half of the rows`."""
    if not isinstance(told, dict):
        return ""
    fraction, message = told.get("fraction"), told.get("message")
    is_number = isinstance(fraction, int | float) and not isinstance(fraction, bool)
    share = f"{fraction:.0%}".replace("%", " %") if is_number else ""
    return " ".join(f"{share} {message or ''}".split())


def more(command: str) -> None:
    click.echo(f"\nMore:\n  {command}")


def json(value: Any) -> None:
    import msgspec

    encoded = msgspec.json.encode(value)
    with suppress(RecursionError):  # deeply nested arguments stay on one line, which a script can read as well
        encoded = msgspec.json.format(encoded, indent=2)
    click.echo(plain_json(encoded.decode()))


def short(text: str, width: int) -> str:
    """Return the text on one line, cut to the width."""
    whole = plain(" ".join(text.split()))
    return whole if len(whole) <= width else whole[: width - 1] + "…"


def _cell(value: object) -> str:
    return "" if value is None else plain(str(value))


def _width(text: str) -> int:
    """Return the columns that the text takes on the screen."""
    if text.isascii():
        return len(text)  # nearly always, and then rich need not be imported
    from rich.cells import cell_len

    return cell_len(text)
