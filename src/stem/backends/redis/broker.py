"""Push, claim, keep and end tasks on Redis: each verb is one script."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import msgspec

from stem.backends.redis import shapes
from stem.backends.redis.claimed import read_claimed
from stem.backends.redis.queues import occupied
from stem.backends.redis.space import POLL_SECONDS, Space, microseconds, pack
from stem.backends.redis.standing import RedisStanding
from stem.backends.standing import SIT_SECONDS
from stem.contracts.broker import Broker
from stem.core.delivery import Delivery, Depth, Ending, Fallen, Lease, Peeked, Reclaimed, Report, begun_ago, survivors
from stem.core.envelope import Push, Receipt
from stem.core.errors import ConfigError
from stem.core.record import TaskError
from stem.core.settle import MAX_DEATHS

EAR_OPENS = 2  # looks, before which something may have been missed; see Space.wait
STEP = 1000  # tasks a script call, where the contract lets the work be cut

_EXPIRED = shapes.json(TaskError("Expired", "It expired before it could start."))


@dataclass(frozen=True, slots=True)
class Emptied:
    """A claim has found less than it wanted. Who then waits need not look first, if his ear was open all the time."""

    queues: list[str]
    mark: object  # of the ear
    due_at: float | None  # when the next delayed one is due, by the machine's monotonic clock


class RedisBroker(Broker):
    def __init__(self, space: Space) -> None:
        self._space = space
        self._standing = RedisStanding(space)
        self._emptied: Emptied | None = None  # by the last claim

    def push(self, pushes: Sequence[Push], *, connection: object | None = None) -> list[Receipt]:
        if connection is not None:
            raise ConfigError("A Redis store cannot join a transaction; enqueue without connection=.")
        if not pushes:
            return []
        ids = [push.envelope.id for push in pushes]
        rows = [shapes.pushed(push) for push in pushes]
        if self._push_alike(ids, rows):
            return [Receipt(id, created=True) for id in ids]
        answers = _receipts(self._space.run("push", ids, pack(rows)))
        return [
            Receipt(answer if isinstance(answer, str) else id, created=answer is True)
            for id, answer in zip(ids, answers, strict=True)
        ]

    def claim(self, queues: Sequence[str], *, limit: int, lease_seconds: float) -> list[Delivery]:
        if handed := self._standing.take():
            return handed
        names, lease = list(dict.fromkeys(queues)), microseconds(lease_seconds)
        deliveries: list[Delivery] = []
        more, due, mark = limit > 0, 0, self._space.ears.mark
        while more and len(deliveries) < limit:
            given = {"queues": names, "limit": limit - len(deliveries), "lease": lease, "expired": _EXPIRED}
            more, claimed, aside, due = self._space.run("claim", given)
            deliveries += read_claimed(self._space, claimed, iter(aside))
        if len(deliveries) < limit:
            self._emptied = Emptied(names, mark, None if due < 0 else monotonic() + due / 1_000_000)
        else:
            self._emptied = None
            self._space.ears.tune_out()  # there is more, so nobody waits for it
        return deliveries

    def wait(self, queues: Sequence[str], *, timeout_seconds: float) -> bool:
        return self._wait(queues, None, 0.0, timeout_seconds)

    def stand_by(
        self, queues: Sequence[str], *, room: Callable[[], int], lease_seconds: float, timeout_seconds: float
    ) -> bool:
        return self._wait(queues, room, lease_seconds, timeout_seconds)

    def _wait(
        self, queues: Sequence[str], room: Callable[[], int] | None, lease_seconds: float, timeout_seconds: float
    ) -> bool:
        """A due time that falls within the wait ends it, even if the push that set it is long past. With room it is about the
        seat as well."""
        names = list(dict.fromkeys(queues))
        standing, times_left = self._standing, self._standing.enter()
        if room is not None and standing.has_some:
            return True
        emptied, self._emptied = self._emptied, None
        known, is_told, is_handed = None, False, False
        due_at, looks = None if emptied is None else emptied.due_at, 0
        if emptied is not None and emptied.queues == names and emptied.mark is not None and timeout_seconds > 0:
            known = _Due.at(due_at) if emptied.mark is self._space.ears.mark else None

        def look(left: float) -> _Due:
            nonlocal due_at, looks
            looks += 1
            # Before and as it begins to listen, who has a seat asks what he was handed meanwhile.
            if room is not None and (looks <= EAR_OPENS or is_due()):
                seen = _Due(standing.sit(names, room(), lease_seconds, times_left, left))
            else:
                seen = _Due(int(self._space.run("due", names, within=left)))
            due_at = seen.at_moment
            return seen

        def is_due() -> bool:
            return room is not None and (standing.times_left != times_left or standing.is_due(names, room()))

        def is_news(told: bytes) -> bool:
            nonlocal is_told, is_handed
            if told and not standing.hear(told):
                return False
            is_told, is_handed = is_told or not told, is_handed or bool(told)
            return True

        def pause(due: _Due) -> float:
            return SIT_SECONDS if is_due() else due.pause

        due = self._space.wait(
            [*(f"wake:{name}" for name in names), *([] if room is None else [standing.channel])],
            look,
            timeout_seconds=timeout_seconds,
            is_news=is_news,
            pause=pause,
            on_news=NOW,  # whoever is woken claims at once: asking first whether it is worth it would only cost time
            known=known,
            stays_tuned=True,
            is_off=lambda: room is not None and standing.times_left != times_left,
        )
        if is_handed and not is_told:  # which says nothing of what else there is
            self._emptied = Emptied(names, self._space.ears.mark, due_at)
        return bool(due)

    def stand_down(self, *, for_good: bool = False) -> list[Delivery]:
        return self._standing.leave(for_good=for_good)

    def rest(self) -> None:
        self._space.ears.tune_out()

    def start(self, leases: Sequence[Lease], *, worker: str, ago_seconds: Sequence[float] = ()) -> list[Lease]:
        began = [microseconds(ago) for ago in begun_ago(leases, ago_seconds)]
        return self._refused("start", leases, {"leases": leases, "worker": worker, "ago": began})

    def report(self, reports: Sequence[Report], *, worker: str) -> list[Lease]:
        rows = [
            (
                report.lease.id,
                report.lease.fence,
                False if report.progress is None else shapes.json(report.progress),
                microseconds(max(0.0, report.ago_seconds)),
            )
            for report in reports
        ]
        return self._refused("report", [report.lease for report in reports], {"reports": rows, "worker": worker})

    def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Lease]:
        return self._refused("renew", leases, {"leases": leases, "lease": microseconds(lease_seconds)})

    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]:
        leases = [ending.lease for ending in endings]
        columns = shapes.successes(endings)
        if columns is not None:
            return self._refused("succeed", leases, (worker, *columns))
        ids: list[str] = []
        rows: list[tuple[Any, ...]] = []
        for ending in endings:
            ids.append(ending.lease.id)
            rows.append(shapes.ended(ending))
            for push in ending.follow_ups:
                ids.append(push.envelope.id)
                rows.append(shapes.pushed(push))
        refused = self._asked("settle", leases, (worker, ids), pack(rows))
        self._survived(survivors(refused, endings))
        return refused

    def bury(self, fallen: Sequence[Fallen], *, worker: str) -> list[Receipt]:
        if not fallen:
            return []
        ids = [each.envelope.id for each in fallen]
        made = _receipts(self._space.run("bury", (worker, ids), pack([shapes.fallen(each) for each in fallen])))
        return [Receipt(id, created=answer is True) for id, answer in zip(ids, made, strict=True)]

    def reclaim(self, *, limit: int = 1000, max_deaths: int = MAX_DEATHS, grace_seconds: float = 0.0) -> Reclaimed:
        result = Reclaimed([], [])
        left, grace = limit, microseconds(grace_seconds)
        while left > 0:
            step = min(left, STEP)
            given = {"limit": step, "deaths": max_deaths, "grace": grace}
            returned, dead = _reclaimed(self._space.run("reclaim", given))
            result.returned.extend(returned)
            result.dead.extend(dead)
            left -= step
            if len(returned) + len(dead) < step:
                break
        return result

    def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        stretches = occupied(self._space) if queues is None else [list(queues)]
        rows = (row for names in stretches for row in _depths(self._space.run("depth", names)))
        return {queue: Depth(*counts) for queue, *counts in rows if queues is not None or any(counts)}

    def peek(self, queue: str, *, limit: int) -> list[Peeked]:
        if limit <= 0:
            return []
        rows = _peeked(self._space.run("peek", {"queue": queue, "limit": limit}))
        return [
            Peeked(id, name, queue, priority, attempt, shapes.when(due), body.encode())
            for id, name, queue, priority, attempt, due, body in rows
        ]

    def cancel(self, task_ids: Sequence[str], *, reason: str = "revoked") -> list[str]:
        ids, told = list(dict.fromkeys(task_ids)), _cancelled(reason)
        steps = [ids[start : start + STEP] for start in range(0, len(ids), STEP)]
        return [id for step in steps for id in _ids(self._space.run("cancel", {"ids": step, **told}))]

    def find(self, task_id: str) -> Peeked | None:
        for id, name, queue, priority, attempt, due, body in _peeked(self._space.run("find", {"id": task_id})):
            return Peeked(id, name, queue, priority, attempt, shapes.when(due), body.encode())
        return None

    def purge(self, queue: str) -> int:
        given = {"queue": queue, "limit": STEP, **_cancelled("purged")}
        purged = 0
        while (step := int(self._space.run("purge", given))) > 0:
            purged += step
            if step < STEP:
                break
        return purged

    def _push_alike(self, ids: list[str], rows: list[shapes.Pushed]) -> bool:
        """The short way of most pushes. False with nothing written where they differ too much or an id is known."""
        kinds = set(map(shapes.kind, rows))
        options, *kind = kinds.pop()
        if kinds or options or len(set(ids)) < len(ids):
            return False
        return bool(self._space.run("push_alike", (*kind, ids), *map(shapes.middle, rows)))

    def _refused(self, script: str, leases: Sequence[Lease], given: Any) -> list[Lease]:
        refused = self._asked(script, leases, given)
        self._survived(refused)
        return refused

    def _asked(self, script: str, leases: Sequence[Lease], given: Any, *more: bytes) -> list[Lease]:
        if not leases:
            return []
        return [leases[position - 1] for position in _positions(self._space.run(script, given, *more))]

    def _survived(self, refused: list[Lease]) -> None:
        """Whoever speaks has not died: what was reclaimed from it counts as no death."""
        if refused:
            self._space.run("survived", refused)


class _Due:
    """When a claim may find something: true for now."""

    def __init__(self, microseconds_left: int) -> None:
        self._left = microseconds_left

    @classmethod
    def at(cls, moment: float | None) -> "_Due":
        return cls(-1 if moment is None else max(0, microseconds(moment - monotonic())))

    @property
    def at_moment(self) -> float | None:
        return None if self._left < 0 else monotonic() + self._left / 1_000_000

    def __bool__(self) -> bool:
        return self._left == 0

    @property
    def pause(self) -> float:
        # A server's reply drops what is less than a microsecond: look a little later, not a little too early.
        return POLL_SECONDS if self._left < 0 else self._left / 1_000_000 + 0.0005


def _cancelled(reason: str) -> dict[str, Any]:
    """What record and log say of it."""
    return {"error": shapes.json(TaskError("Cancelled", reason)), "data": shapes.json({"reason": reason})}


NOW = _Due(0)

_receipts = msgspec.msgpack.Decoder(list[bool | str]).decode
_positions = msgspec.msgpack.Decoder(list[int]).decode
_ids = msgspec.msgpack.Decoder(list[str]).decode
_reclaimed = msgspec.msgpack.Decoder(tuple[list[str], list[str]]).decode
_depths = msgspec.msgpack.Decoder(list[tuple[str, int, int, int, int]]).decode
_peeked = msgspec.msgpack.Decoder(list[tuple[str, str, str, int, int, int, str]]).decode
