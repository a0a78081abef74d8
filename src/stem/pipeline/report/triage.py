"""Group dead letters by task, reason and error, and replay a group."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, DeadLetter
from stem.core.errors import DeadLetterNotFound
from stem.core.record import moment
from stem.core.text.fingerprint import fingerprint, normalised

_PAGE = 1000
_SAMPLES = 3


class Cluster(msgspec.Struct, frozen=True, rename="camel"):
    """Dead letters of one task with the same reason and the same error, apart from numbers, ids and paths."""

    id: str
    task: str
    reason: str
    error_type: str
    pattern: str
    count: int
    queues: dict[str, int]
    first_at: datetime
    last_at: datetime
    message: str  # of the newest
    sample_ids: list[str]


def triage(store: Store, where: DeadFilter | None = None) -> list[Cluster]:
    """All clusters, the largest first."""
    found: dict[str, Cluster] = {}
    for letter in _letters(store, where or DeadFilter()):
        name = cluster_of(letter)
        found[name] = _joined(found.get(name), name, letter)
    return sorted(found.values(), key=lambda cluster: (-cluster.count, cluster.id))


def replay(
    store: Store,
    cluster: str,
    where: DeadFilter | None = None,
    *,
    delay_seconds: float = 0.0,
    dry_run: bool = False,
) -> list[str]:
    """Replay the dead letters of a cluster, or of a fingerprint from a report, that pass the filter. Ids stay, each batch is
    atomic, and a letter that another process replays meanwhile is queued once. Later dead letters are left alone. Raises
    DeadLetterNotFound."""
    replayed: list[str] = []
    is_there = False
    for ids in _batches(store, cluster, where or DeadFilter()):
        is_there = True
        replayed += store.deadletters.replay(
            DeadFilter(ids=ids), limit=len(ids), delay_seconds=delay_seconds, dry_run=dry_run
        )
    if not is_there:
        raise DeadLetterNotFound(
            f"No dead letter is in cluster {cluster}, or none is left; see 'stem pipeline triage' for the clusters there are."
        )
    return replayed


def cluster_of(letter: DeadLetter) -> str:
    """The id of the letter's cluster."""
    return fingerprint(f"{letter.name}\n{letter.reason}\n{_of_error(letter)}", "")


def _of_error(letter: DeadLetter) -> str:
    """The fingerprint of the error, as in the lake and in reports."""
    return fingerprint(letter.error.type, letter.error.message) if letter.error else fingerprint("", "")


def _batches(store: Store, cluster: str, where: DeadFilter) -> Iterator[tuple[str, ...]]:
    """The ids of the cluster, all read before the first replay, because replays shift the pages."""
    now = msgspec.structs.replace(where, until=moment(store.upkeep.now()))
    ids = [letter.id for letter in _letters(store, now) if cluster in (cluster_of(letter), _of_error(letter))]
    for start in range(0, len(ids), _PAGE):
        yield tuple(ids[start : start + _PAGE])


def _letters(store: Store, where: DeadFilter) -> Iterator[DeadLetter]:
    cursor: str | None = None
    while True:
        page = store.deadletters.page(where, limit=_PAGE, cursor=cursor)
        yield from page.items
        if page.cursor is None:
            return
        cursor = page.cursor


def _joined(cluster: Cluster | None, name: str, letter: DeadLetter) -> Cluster:
    """Letters come newest first."""
    if cluster is None:
        kind, message = (letter.error.type, letter.error.message) if letter.error else ("", "")
        facts: dict[str, Any] = {"task": letter.name, "reason": letter.reason, "error_type": kind}
        return Cluster(
            id=name,
            **facts,
            pattern=normalised(message),
            count=1,
            queues={letter.queue: 1},
            first_at=letter.dead_at,
            last_at=letter.dead_at,
            message=message[:300],
            sample_ids=[letter.id],
        )
    return msgspec.structs.replace(
        cluster,
        count=cluster.count + 1,
        queues={**cluster.queues, letter.queue: cluster.queues.get(letter.queue, 0) + 1},
        first_at=min(cluster.first_at, letter.dead_at),
        last_at=max(cluster.last_at, letter.dead_at),
        sample_ids=[*cluster.sample_ids, letter.id][:_SAMPLES],
    )
