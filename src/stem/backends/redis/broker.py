"""Push, claim, renew and settle tasks on Redis. Each operation is one Lua script."""

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

import msgspec

from stem.backends.handoff import NEVER_SECONDS, REGISTER_AGAIN_SECONDS, EmptyClaim
from stem.backends.redis.codec import script_input, values
from stem.backends.redis.codec.batch_needs import needs, needs_of_endings
from stem.backends.redis.codec.claimed import read_claimed
from stem.backends.redis.codec.script_reply import answered
from stem.backends.redis.handoff import RedisHandoff
from stem.backends.redis.namespace import RedisNamespace, microseconds, pack
from stem.contracts.broker import Broker
from stem.core.decisions.settle import MAX_DEATHS
from stem.core.delivery import DeadCall, Delivery, Depth, Ending, Lease, Peeked, Reclaimed, Report, begun_ago, survivors
from stem.core.envelope import Push, Receipt
from stem.core.errors import ConfigError
from stem.core.record import TaskError

LOOKS_BEFORE_SUBSCRIBED = 2  # until then a notification may be missed; see RedisNamespace.wait
AWAITED_CALLS = 16  # after one task that others wait for, the next calls expect more of them
STEP = 1000  # tasks per script call, where the contract allows several calls

_EXPIRED = values.json(TaskError("Expired", "It expired before it could start."))


class RedisBroker(Broker):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace
        self._handoff = RedisHandoff(namespace)
        self._empty_claim: EmptyClaim | None = None  # by the last claim
        self._awaited_calls = 0  # how many calls still expect tasks that others wait for

    def push(self, pushes: Sequence[Push], *, connection: object | None = None) -> list[Receipt]:
        if connection is not None:
            raise ConfigError("A Redis store cannot join a transaction; enqueue without connection=.")
        if not pushes:
            return []
        ids = [push.envelope.id for push in pushes]
        rows = [script_input.pushed(push) for push in pushes]
        if self._push_uniform(pushes, ids, rows):
            return [Receipt(id, created=True) for id in ids]
        answers = _receipts(answered(self._namespace.run("push", (ids, *needs(pushes)), pack(rows))))
        return list(map(_receipt, ids, answers))

    def claim(self, queues: Sequence[str], *, limit: int, lease_seconds: float) -> list[Delivery]:
        if handed := self._handoff.take():
            return handed
        names, lease = list(dict.fromkeys(queues)), microseconds(lease_seconds)
        deliveries: list[Delivery] = []
        more, due, token = limit > 0, 0, self._namespace.subscribers.token
        while more and len(deliveries) < limit:
            given = {"queues": names, "limit": limit - len(deliveries), "lease": lease, "expired": _EXPIRED}
            more, claimed, aside, due, ranks, expired = self._namespace.run("claim", given)
            deliveries += read_claimed(self._namespace, claimed, iter(aside), ranks)
            if expired:
                self._namespace.run("expire", ([id.decode() for id in expired], _EXPIRED))
                more = True
        if len(deliveries) < limit:
            self._empty_claim = EmptyClaim(names, token, _due_at(due))
        else:
            self._empty_claim = None
            self._namespace.subscribers.unsubscribe()  # there is more to claim, so no wait follows
        return deliveries

    def wait(self, queues: Sequence[str], *, timeout_seconds: float) -> bool:
        return self._wait(queues, None, 0.0, timeout_seconds)

    def wait_for_handoff(
        self, queues: Sequence[str], *, room: Callable[[], int], lease_seconds: float, timeout_seconds: float
    ) -> bool:
        return self._wait(queues, room, lease_seconds, timeout_seconds)

    def _wait(
        self, queues: Sequence[str], room: Callable[[], int] | None, lease_seconds: float, timeout_seconds: float
    ) -> bool:
        """Wait for a due task and, with `room`, for one that is handed over. Delayed tasks end the wait when they fall due."""
        names = list(dict.fromkeys(queues))
        handoff, withdrawals = self._handoff, self._handoff.begin_wait()
        if room is not None and handoff.has_deliveries:
            return True
        empty_claim, self._empty_claim = self._empty_claim, None
        if empty_claim is not None and empty_claim.queues != names:
            empty_claim = None
        due_at = _due_at(-1) if empty_claim is None else empty_claim.due_at
        token = self._namespace.subscribers.token
        is_known = empty_claim is not None and token is not None and empty_claim.position is token
        is_told, is_handed, looks = False, False, 0

        def look(left: float) -> bool:
            nonlocal due_at, looks
            looks += 1
            # Until the channel is subscribed, a registered worker fetches what it was handed.
            if room is not None and (looks <= LOOKS_BEFORE_SUBSCRIBED or is_due()):
                due = handoff.register(names, room(), lease_seconds, withdrawals, left)
            else:
                due = int(self._namespace.run("due", names, within=left))
            due_at = _due_at(due)
            return due == 0

        def is_due() -> bool:
            return room is not None and (handoff.withdrawals != withdrawals or handoff.is_due(names, room()))

        def is_news(told: bytes) -> bool:
            nonlocal is_told, is_handed
            if told and not handoff.receive(told):
                return False
            is_told, is_handed = is_told or not told, is_handed or bool(told)
            return True

        def pause() -> float:
            # Replies are whole microseconds: look a little too late rather than too early.
            return REGISTER_AGAIN_SECONDS if is_due() else due_at - monotonic() + 0.0005

        found = self._namespace.wait(
            [*(f"wake:{name}" for name in names), *([] if room is None else [handoff.channel])],
            look,
            timeout_seconds,
            is_news=is_news,
            pause=pause,
            on_news=True,  # a worker that is woken claims at once; looking first would only cost time
            is_known=is_known and timeout_seconds > 0 and due_at > monotonic(),
            stays_subscribed=True,
            is_off=lambda: room is not None and handoff.withdrawals != withdrawals,
        )
        if is_handed and not is_told:  # a handoff says nothing about what else waits
            self._empty_claim = EmptyClaim(names, self._namespace.subscribers.token, due_at)
        return bool(found)

    def stop_handoff(self, *, for_good: bool = False) -> list[Delivery]:
        return self._handoff.withdraw(for_good=for_good)

    def release_wait(self) -> None:
        self._namespace.subscribers.unsubscribe()

    def start(self, leases: Sequence[Lease], *, worker: str, ago_seconds: Sequence[float] = ()) -> list[Lease]:
        began = [microseconds(ago) for ago in begun_ago(leases, ago_seconds)]
        return self._refused("start", leases, {"leases": leases, "worker": worker, "ago": began})

    def report(self, reports: Sequence[Report], *, worker: str) -> list[Lease]:
        rows = [
            (
                report.lease.id,
                report.lease.fence,
                False if report.progress is None else values.json(report.progress),
                microseconds(max(0.0, report.ago_seconds)),
            )
            for report in reports
        ]
        return self._refused("report", [report.lease for report in reports], {"reports": rows, "worker": worker})

    def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Lease]:
        return self._refused("renew", leases, {"leases": leases, "lease": microseconds(lease_seconds)})

    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]:
        if not endings:
            return []
        leases = [ending.lease for ending in endings]
        columns = script_input.successes(endings)
        if columns is not None:
            return self._succeed(leases, (worker, *columns))
        ids: list[str] = []
        rows: list[tuple[Any, ...]] = []
        for ending in endings:
            ids.append(ending.lease.id)
            rows.append(script_input.ended(ending))
            for push in ending.follow_ups:
                ids.append(push.envelope.id)
                rows.append(script_input.pushed(push))
        refused = self._asked("settle", leases, (worker, ids, *needs_of_endings(endings)), pack(rows))
        self._survived(survivors(refused, endings))
        return refused

    def insert_dead(self, calls: Sequence[DeadCall], *, worker: str) -> list[Receipt]:
        if not calls:
            return []
        ids = [each.envelope.id for each in calls]
        made = _receipts(
            self._namespace.run("insert_dead", (worker, ids), pack([script_input.dead_call(each) for each in calls]))
        )
        return [Receipt(id, created=answer is True) for id, answer in zip(ids, made, strict=True)]

    def reclaim(self, *, limit: int = 1000, max_deaths: int = MAX_DEATHS, grace_seconds: float = 0.0) -> Reclaimed:
        result = Reclaimed([], [])
        left, grace = limit, microseconds(grace_seconds)
        while left > 0:
            step = min(left, STEP)
            given = {"limit": step, "deaths": max_deaths, "grace": grace}
            returned, dead = _reclaimed(self._namespace.run("reclaim", given))
            result.returned.extend(returned)
            result.dead.extend(dead)
            left -= step
            if len(returned) + len(dead) < step:
                break
        return result

    def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        stretches = self._namespace.occupied_queues() if queues is None else [list(queues)]
        rows = (row for names in stretches for row in _depths(self._namespace.run("depth", names)))
        return {queue: Depth(*counts) for queue, *counts in rows if queues is not None or any(counts)}

    def peek(self, queue: str, *, limit: int) -> list[Peeked]:
        if limit <= 0:
            return []
        rows = _peeked(self._namespace.run("peek", {"queue": queue, "limit": limit}))
        return [
            Peeked(id, name, queue, priority, attempt, values.when(due), body.encode())
            for id, name, queue, priority, attempt, due, body in rows
        ]

    def cancel(self, task_ids: Sequence[str], *, reason: str = "revoked") -> list[str]:
        ids, told = list(dict.fromkeys(task_ids)), _cancelled(reason)
        steps = [ids[start : start + STEP] for start in range(0, len(ids), STEP)]
        return [id for step in steps for id in _ids(self._namespace.run("cancel", {"ids": step, **told}))]

    def find(self, task_id: str) -> Peeked | None:
        for id, name, queue, priority, attempt, due, body in _peeked(self._namespace.run("find", {"id": task_id})):
            return Peeked(id, name, queue, priority, attempt, values.when(due), body.encode())
        return None

    def purge(self, queue: str) -> int:
        given = {"queue": queue, "limit": STEP, **_cancelled("purged")}
        purged = 0
        while (step := int(self._namespace.run("purge", given))) > 0:
            purged += step
            if step < STEP:
                break
        return purged

    def _push_uniform(self, pushes: Sequence[Push], ids: list[str], rows: list[script_input.Pushed]) -> bool:
        """Push tasks that share name, queue and priority. False, with nothing written, if they do not or an id is known."""
        kinds = set(map(script_input.kind, rows))
        options, *kind = kinds.pop()
        if kinds or options or len(set(ids)) < len(ids):
            return False
        return bool(
            self._namespace.run(
                "push_uniform", (*kind, ids, script_input.tenants(pushes)), *map(script_input.packed_fields, rows)
            )
        )

    def _succeed(self, leases: Sequence[Lease], given: tuple[Any, ...]) -> list[Lease]:
        reply: Any = self._namespace.run("succeed", given) if self._awaited_calls == 0 else 0
        if reply == 0:  # others may wait for one of the tasks
            self._awaited_calls = (self._awaited_calls or AWAITED_CALLS) - 1
            reply = self._namespace.run("succeed_awaited", given)
        refused = [leases[position - 1] for position in _positions(reply)]
        self._survived(refused)
        return refused

    def _refused(self, script: str, leases: Sequence[Lease], given: Any) -> list[Lease]:
        refused = self._asked(script, leases, given)
        self._survived(refused)
        return refused

    def _asked(self, script: str, leases: Sequence[Lease], given: Any, *more: bytes) -> list[Lease]:
        if not leases:
            return []
        return [leases[position - 1] for position in _positions(answered(self._namespace.run(script, given, *more)))]

    def _survived(self, refused: list[Lease]) -> None:
        """Take back the deaths counted for leases that were reclaimed: their worker is alive."""
        if refused:
            self._namespace.run("survived", refused)


def _receipt(id: str, answer: bool | str | list[str]) -> Receipt:
    match answer:
        case str(holder):
            return Receipt(holder, created=False)
        case [superseded]:
            return Receipt(id, created=True, superseded=superseded)
        case is_created:
            return Receipt(id, created=is_created is True)


def _due_at(microseconds_left: int) -> float:
    return monotonic() + (NEVER_SECONDS if microseconds_left < 0 else microseconds_left / 1_000_000)


def _cancelled(reason: str) -> dict[str, Any]:
    """The error of the record and the data of the event."""
    return {"error": values.json(TaskError("Cancelled", reason)), "data": values.json({"reason": reason})}


_receipts = msgspec.msgpack.Decoder(list[bool | str | list[str]]).decode
_positions = msgspec.msgpack.Decoder(list[int]).decode
_ids = msgspec.msgpack.Decoder(list[str]).decode
_reclaimed = msgspec.msgpack.Decoder(tuple[list[str], list[str]]).decode
_depths = msgspec.msgpack.Decoder(list[tuple[str, int, int, int, int, int]]).decode
_peeked = msgspec.msgpack.Decoder(list[tuple[str, str, str, int, int, int, str]]).decode
