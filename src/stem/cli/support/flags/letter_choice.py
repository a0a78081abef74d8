"""Choose dead letters: by id, by filter, or all of them."""

from typing import TYPE_CHECKING, Any

import click

from stem.cli.support import times
from stem.cli.support.flags import options, several
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from stem.contracts.store import Store
    from stem.core.delivery import DeadFilter


filters = several.with_options(
    options.queue,
    options.name,
    click.option("--reason", help="Only letters with this reason."),
    click.option("--since", type=times.DURATION_OR_MOMENT, help="Only letters since: 1h, or an ISO moment."),
)
choice = several.with_options(
    filters,
    click.option("--all", "every", is_flag=True, help="Choose all letters."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Choose at most N, newest first."),
)


def check(chosen: dict[str, Any]) -> None:
    """Raise UsageError unless dead letters are chosen in exactly one way; all of them only by --all."""
    from stem.core.envelope import check_id

    by_filter = any(chosen[name] is not None for name in ("queue", "name", "reason", "since"))
    if bool(chosen["ids"]) + by_filter + chosen["every"] != 1:
        raise UsageError("Say which dead letters: ids, or filters such as --queue and --since, or --all.")
    for id in chosen["ids"]:
        check_id(id)


def filter_of(store: "Store", chosen: dict[str, Any]) -> "DeadFilter":
    """Build the filter. It excludes tasks that die from now on: one that fails at once would be replayed without end."""
    from stem.core.delivery import DeadFilter
    from stem.core.record import moment

    now = store.upkeep.now()
    return DeadFilter(
        ids=chosen["ids"] or None,
        queue=chosen["queue"],
        name=chosen["name"],
        reason=chosen["reason"],
        since=times.since(chosen["since"], now),
        until=None if chosen["ids"] else moment(now),
    )
