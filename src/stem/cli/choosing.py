"""Choose dead letters: by id, by what they are, or all of them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from stem.cli import times
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from stem.contracts.store import Store
    from stem.core.delivery import DeadFilter


def options(function: Callable[..., None]) -> Callable[..., None]:
    """The options that choose dead letters by what they are."""
    filters = (
        click.option("-Q", "--queue", help="Only those of this queue."),
        click.option("--name", help="Only those of this task name."),
        click.option("--reason", help="Only those given up for this reason."),
        click.option("--since", type=times.DURATION_OR_MOMENT, help="Only those dead since: 1h, or an ISO moment."),
    )
    for option in reversed(filters):
        function = option(function)
    return function


def check(chosen: dict[str, Any]) -> None:
    """One way of choosing at a time, and everything is a choice that must be said."""
    from stem.core.envelope import check_id

    by_filter = any(chosen[name] is not None for name in ("queue", "name", "reason", "since"))
    if bool(chosen["ids"]) + by_filter + chosen["every"] != 1:
        raise UsageError("Say which dead letters: ids, or filters such as --queue and --since, or --all.")
    for id in chosen["ids"]:
        check_id(id)


def filter_of(store: "Store", chosen: dict[str, Any]) -> "DeadFilter":
    """A filter leaves alone what dies from now on, or a task that dies at once could be replayed without end."""
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
