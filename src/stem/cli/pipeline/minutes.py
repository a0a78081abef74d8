"""`stem pipeline minutes`: show recent rollups from the store, without Spark."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from stem.cli.support import printing, times
from stem.cli.support.stores import Session, in_session
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from stem.contracts.rollups import Measures

_AHEAD_SECONDS = 86400.0  # include rows of clocks ahead of the store's
# As many measures as fit 80 columns.
_COUNTS = ("enqueued", "succeeded", "retried", "failed")
_SECONDS = ("wait_p95", "run_p95")


@click.command()
@click.option("--since", type=times.DURATION, default=3600.0, show_default="1h", help="How far back: 15m, 1h.")
@click.option(
    "--by",
    metavar="KEYS",
    default="minute",
    show_default=True,
    help="Print one row per: minute,name,queue,worker,tenant.",
)
@in_session
def minutes(session: Session, since: float, by: str) -> None:
    """Show throughput and latency per minute, as counted by `stem pipeline run`.

    Needs no Spark and no lake. Waits and run times are in seconds; --json has every measure.

    \b
    Example: stem pipeline minutes --since 15m --by name,queue
    """
    from stem.contracts.rollups import merged

    keys = _keys(by)
    with session.store() as store:
        now = store.upkeep.now()
        start = datetime.fromtimestamp((now - since) // 60 * 60, UTC)
        rows = merged(store.rollups.read(start, datetime.fromtimestamp(now + _AHEAD_SECONDS, UTC)), keys)
    ordered = sorted(rows.items(), key=lambda item: tuple(str(part or "") for part in item[0]))
    if session.as_json:
        printing.json(
            {"rows": [{**dict(zip(keys, key, strict=True)), **measures.shown()} for key, measures in ordered]}
        )
        return
    printing.table(
        (*keys, *_COUNTS, *_SECONDS),
        [_line(keys, key, measures) for key, measures in ordered],
        empty="Nothing was counted in that time; run 'stem pipeline run --follow', or look further back with --since.",
    )


def _keys(by: str) -> list[str]:
    from stem.contracts.rollups import KEYS

    keys = [key.strip() for key in by.split(",")]
    for key in keys:
        if key not in KEYS:
            raise UsageError(f"--by {key!r} is not a key of the rollups; choose from {', '.join(KEYS)}.")
    return keys


def _line(keys: list[str], key: tuple[Any, ...], measures: "Measures") -> list[object]:
    named = [times.written(part) if name == "minute" else part for name, part in zip(keys, key, strict=True)]
    shown = measures.shown()
    seconds = (shown.get(name) for name in _SECONDS)
    return [
        *named,
        *(shown.get(name, 0) for name in _COUNTS),
        *(None if value is None else f"{value:.3g}" for value in seconds),
    ]
