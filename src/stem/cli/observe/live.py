"""Show a table once, again and again on a terminal, or its changes as lines."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click

from stem.cli.support import printing
from stem.core.errors import StoreUnavailable
from stem.core.text.escaping import plain_json

EVERY_SECONDS = 2.0
_AROUND = 6  # lines: the titles, how many more there are, and the sentence about a store that is away

follow = click.option("--follow", is_flag=True, help="Continue until Ctrl-C; with --json one line per change.")


@dataclass(frozen=True, slots=True)
class LiveRow:
    """One row: what people see, and what scripts read. `key` tells it from the others."""

    key: str
    cells: Sequence[object]
    shape: dict[str, Any]
    note: str = ""


@dataclass(frozen=True, slots=True)
class LiveTable:
    """Rows at one moment. `name` is the key of their list in JSON; `varying` are the fields of a shape that change by
    themselves, and are no news."""

    name: str
    columns: Sequence[str]
    rows: Sequence[LiveRow]
    empty: str
    shrink: Sequence[str] = ()
    states: Sequence[str] = ()
    varying: Sequence[str] = ()
    more: dict[str, Any] = field(default_factory=dict)


def show(look: Callable[[], LiveTable], *, as_json: bool, follows: bool) -> None:
    """Print what `look` returns, once or until Ctrl-C. While it is followed, a store may be away for a time."""
    table = look()
    if not follows:
        _print(table, as_json=as_json)
    elif sys.stdout.isatty() and not as_json:
        _redraw(look, table)
    else:
        _append(look, table, as_json=as_json)


def _print(table: LiveTable, *, as_json: bool) -> None:
    if as_json:
        printing.json({table.name: [row.shape for row in table.rows], **table.more})
        return
    printing.table(
        table.columns,
        [row.cells for row in table.rows],
        empty=table.empty,
        shrink=table.shrink,
        notes=[row.note for row in table.rows],
        states=table.states,
    )


def _redraw(look: Callable[[], LiveTable], table: LiveTable) -> None:
    trouble = ""
    while True:
        click.clear()
        shown = _fitting(table)
        _print(shown, as_json=False)
        if hidden := len(table.rows) - len(shown.rows):
            click.echo(f"and {hidden:,} more")
        if trouble:
            click.echo(f"\n{printing.plain(trouble)}", err=True)
        time.sleep(EVERY_SECONDS)
        try:
            table, trouble = look(), ""
        except StoreUnavailable as error:
            trouble = str(error)


def _fitting(table: LiveTable) -> LiveTable:
    """The first rows, as many as the screen holds: the rest would push them off its top."""
    room = printing.screen_height() - _AROUND
    kept: list[LiveRow] = []
    for row in table.rows:
        room -= 2 if row.note else 1
        if room < 0 and kept:
            break
        kept.append(row)
    return replace(table, rows=kept)


def _append(look: Callable[[], LiveTable], table: LiveTable, *, as_json: bool) -> None:
    before: dict[str, LiveRow] = {}
    is_away = False
    while True:
        for row in _changed(before, table):
            click.echo(_line(table.columns, row, as_json=as_json))
        sys.stdout.flush()
        before = {row.key: row for row in table.rows}
        time.sleep(EVERY_SECONDS)
        try:
            table, is_away = look(), False
        except StoreUnavailable as error:
            if not is_away:
                click.echo(printing.plain(f"warning: {error}"), err=True)
            is_away = True


def _changed(before: dict[str, LiveRow], table: LiveTable) -> Iterator[LiveRow]:
    """New and changed rows, then those that are gone."""
    for row in table.rows:
        last = before.get(row.key)
        if last is None or _news(last.shape, table.varying) != _news(row.shape, table.varying):
            yield row
    now = {row.key for row in table.rows}
    for key, row in before.items():
        if key not in now:
            yield LiveRow(key, [*row.cells[:1], *["gone"] * (len(row.cells) > 1)], {**row.shape, "gone": True})


def _news(shape: dict[str, Any], varying: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in shape.items() if name not in varying}


def _line(columns: Sequence[str], row: LiveRow, *, as_json: bool) -> str:
    if as_json:
        return json_line(row.shape)
    if row.shape.get("gone"):
        return printing.plain(f"{columns[0]}={row.cells[0]}  gone")
    pairs = zip(columns, row.cells, strict=True)
    told = "  ".join(f"{name}={value}" for name, value in pairs if value not in (None, ""))
    return printing.plain(f"{told}  {row.note}" if row.note else told)


def json_line(shape: dict[str, Any]) -> str:
    import msgspec

    return plain_json(msgspec.json.encode(shape).decode())
