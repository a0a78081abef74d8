"""`stem observe dlq`: dead letters, grouped by task and error."""

from typing import TYPE_CHECKING, Any

import click

from stem.cli.observe import live
from stem.cli.support import times
from stem.cli.support.flags import options
from stem.cli.support.stores import Session, in_session

if TYPE_CHECKING:
    from stem.observe.dead_letters import LetterGroup


@click.command()
@options.queue
@options.name
@live.follow
@in_session
def dlq(session: Session, queue: str | None, name: str | None, follow: bool) -> None:
    """Show dead letters in groups of the same task and error, the largest first.

    \b
    Example: stem observe dlq --follow
    """
    with session.store() as store:
        from stem.core.delivery import DeadFilter
        from stem.observe.dead_letters import letters

        def look() -> live.LiveTable:
            found, now = letters(store, DeadFilter(queue=queue, name=name)), store.upkeep.now()
            return live.LiveTable(
                name="groups",
                columns=("count", "task", "queue", "reason", "first", "last"),
                rows=[_row(group, now) for group in found.groups],
                empty="There are no dead letters.",
                shrink=("task", "queue", "reason"),
                more={"count": found.count, "isWhole": found.is_whole},
            )

        live.show(look, as_json=session.as_json, follows=follow)


def _row(group: "LetterGroup", now: float) -> live.LiveRow:
    shape: dict[str, Any] = {
        "fingerprint": group.fingerprint,
        "name": group.name,
        "errorType": group.error_type,
        "message": group.message,
        "reasons": group.reasons,
        "queues": group.queues,
        "count": group.count,
        "firstAt": group.first_at,
        "lastAt": group.last_at,
        "newest": group.newest.id,
    }
    first, last = times.age(group.first_at, now), times.age(group.last_at, now)
    cells = (group.count, group.name, ",".join(group.queues), ",".join(group.reasons), first, last)
    return live.LiveRow(group.fingerprint, cells, shape, " ".join(f"{group.error_type}: {group.message}".split()))
