"""Push, claim, renew and settle tasks in Postgres: one SQL function per operation."""

from collections.abc import Callable, Sequence
from time import monotonic

from stem.backends.handoff import NEVER_SECONDS, REGISTER_AGAIN_SECONDS, EmptyClaim
from stem.backends.postgres.codec.push_columns import is_composed, push, push_one, push_plain
from stem.backends.postgres.codec.settle_columns import mixed_columns, settle_columns
from stem.backends.postgres.codec.text_columns import array, column, json_text, numbers, split
from stem.backends.postgres.connection.caller_transaction import joined
from stem.backends.postgres.connection.deadline_connection import DeadlineConnection
from stem.backends.postgres.connection.errors import is_notify_queue_full
from stem.backends.postgres.connection.pq_exec import Statement
from stem.backends.postgres.namespace import PostgresNamespace, flushing
from stem.backends.postgres.notify.handoff import PostgresHandoff
from stem.backends.postgres.notify.notifier import NOTIFY, Notification, PushNotice, notification, payloads
from stem.backends.postgres.settling import FollowedSettlement, settled_change
from stem.backends.postgres.statements import call, numbered, query_text
from stem.backends.postgres.upkeep.background_pruning import BackgroundPruner
from stem.contracts.broker import Broker
from stem.core.decisions.settle import MAX_DEATHS
from stem.core.delivery import DeadCall, Delivery, Depth, Ending, Lease, Peeked, Reclaimed, Report, begun_ago, survivors
from stem.core.envelope import Push, Receipt
from stem.core.errors import StoreRefused
from stem.core.outcome import Block
from stem.core.record import moment

_MOST = 2**31 - 1  # as large as the server's integers
_PURGE_STEP = 1000
_FLOOD = 5000  # expired tasks after which a claim stops to commit; claim_with_priority.sql says the same


class PostgresBroker(Broker):
    def __init__(self, namespace: PostgresNamespace, pruner: BackgroundPruner) -> None:
        self._namespace = namespace
        self._pruner = pruner
        self._handoff = PostgresHandoff(namespace)
        self._empty_claim: EmptyClaim | None = None  # by the last claim

    def push(self, pushes: Sequence[Push], *, connection: object | None = None) -> list[Receipt]:
        if not pushes:
            return []
        namespace = self._namespace
        if len(pushes) == 1 and pushes[0].unique is None and connection is None and not is_composed(pushes[0]):
            return [self._push_one(pushes[0])]
        if connection is not None:
            with joined(connection, namespace.client.address) as run:
                receipts, change = push(run, namespace, pushes)
                run(NOTIFY, payloads(namespace.notifier.channel, change))  # delivered when the caller commits
            return receipts
        receipts, change = push(namespace.client.rows, namespace, pushes)
        if change.queues or change.ended:
            namespace.notify(change)
        return receipts

    def claim(self, queues: Sequence[str], *, limit: int, lease_seconds: float) -> list[Delivery]:
        if handed := self._handoff.take():
            return handed
        names = list(dict.fromkeys(queues))
        if not names or limit <= 0:
            return []
        while True:
            deliveries, expired, released = self._claim(names, min(limit, _MOST), lease_seconds)
            if expired:
                self._namespace.notify(notification(released, ended=expired))
                self._pruner.note(len(expired))
            if deliveries or len(expired) < _FLOOD:
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
        """With `room` the worker also registers for handoff."""
        names = list(dict.fromkeys(queues))
        handoff, withdrawals = self._handoff, 0 if room is None else self._handoff.begin_wait()
        if room is not None and handoff.has_deliveries:
            return True
        empty_claim = self._empty_claim
        if empty_claim is not None and empty_claim.queues != names:
            empty_claim = None
        due_at = _due_at(None) if empty_claim is None else empty_claim.due_at
        asked = Statement(query_text("wait", self._namespace.schema), (self._namespace.name, array(names)))

        def is_due() -> bool:
            return room is not None and (handoff.withdrawals != withdrawals or handoff.is_due(names, room()))

        def look(left: float) -> bool:
            nonlocal due_at
            if room is not None and is_due():
                is_ready, due = handoff.register(names, room(), lease_seconds, withdrawals)
            else:
                ((ready, due),) = self._namespace.client.cells(asked, timeout_seconds=left)
                is_ready = ready == "t"
            due_at = _due_at(due)
            return is_ready or due_at <= monotonic() or handoff.has_deliveries

        def next_look() -> float:
            return REGISTER_AGAIN_SECONDS if is_due() else due_at - monotonic() + 0.001

        def concerns(change: Notification) -> bool:
            return change.any_queue or not change.queues.isdisjoint(names)

        # A woken worker claims at once: to look first would only cost time.
        found = self._namespace.listeners.work.wait_until(
            concerns,
            look,
            timeout_seconds,
            next_look,
            on_notification=True,
            since=None if empty_claim is None else empty_claim.position,
        )
        return bool(found)

    def stop_handoff(self, *, for_good: bool = False) -> list[Delivery]:
        return self._handoff.withdraw(for_good=for_good)

    def start(self, leases: Sequence[Lease], *, worker: str, ago_seconds: Sequence[float] = ()) -> list[Lease]:
        began = begun_ago(leases, ago_seconds)
        if not leases:
            return []
        first = dict(zip(reversed(leases), reversed(began), strict=True))  # of two for one lease the first counts
        unique = list(dict.fromkeys(leases))
        ago = numbers([first[lease] for lease in unique])
        held = self._namespace.call("start", worker, *_columns(unique), ago)[0][0]
        self._namespace.notify(notification())
        return self._refused(leases, unique, held)

    def report(self, reports: Sequence[Report], *, worker: str) -> list[Lease]:
        if not reports:
            return []
        places: dict[Lease, int] = {}
        latest: dict[Lease, str | None] = {}
        began: dict[Lease, float] = {}
        progress = [None if r.progress is None else json_text(r.progress) for r in reports]
        for report, encoded in zip(reports, progress, strict=True):
            places.setdefault(report.lease, len(places) + 1)
            latest[report.lease] = encoded or latest.get(report.lease)
            began.setdefault(report.lease, max(0.0, report.ago_seconds))
        unique = list(places)
        (held,) = self._namespace.call(
            "report",
            worker,
            *_columns(unique),
            column([latest[lease] for lease in unique]),
            numbers([places[report.lease] for report in reports]),
            column(progress),
            numbers([began[lease] for lease in unique]),
        )[0]
        self._namespace.notify(notification())
        return self._refused([report.lease for report in reports], unique, held)

    def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Lease]:
        if not leases:
            return []
        unique = list(dict.fromkeys(leases))
        held = self._namespace.call("renew", *_columns(unique), lease_seconds)[0][0]
        return self._refused(leases, unique, held)

    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]:
        if not endings:
            return []
        first = {ending.lease: ending for ending in reversed(endings)}  # a second ending of a lease finds it gone
        batch = list(endings) if len(first) == len(endings) else [e for e in endings if first[e.lease] is e]
        if any(ending.follow_ups or isinstance(ending.settlement, Block) for ending in batch):
            settling = FollowedSettlement(self._namespace, batch, worker)
            held, change = self._namespace.client.transaction(settling.write)
            self._namespace.notify(change)
        else:
            held = self._settle(batch, worker)
        accepted = batch if held is None else [batch[place - 1] for place in held]
        self._pruner.note(len(accepted))
        if held is None and len(batch) == len(endings):
            return []
        kept = {id(ending) for ending in accepted}
        refused = [ending.lease for ending in endings if id(ending) not in kept]
        self._survived(survivors(refused, endings))
        return refused

    def insert_dead(self, calls: Sequence[DeadCall], *, worker: str) -> list[Receipt]:
        if not calls:
            return []
        receipts = self._namespace.client.transaction(lambda conn: self._push_and_fail(conn, calls, worker))
        self._namespace.notify(notification(ended=[receipt.id for receipt in receipts if receipt.created]))
        return receipts

    def reclaim(self, *, limit: int = 1000, max_deaths: int = MAX_DEATHS, grace_seconds: float = 0.0) -> Reclaimed:
        rows = self._namespace.call("reclaim", min(limit, _MOST), min(max_deaths, _MOST), grace_seconds)
        if rows:
            queues = {queue for _, queue, dead in rows if queue is not None and not dead}
            ended = [id for id, _, dead in rows if id is not None and dead is not False]
            self._namespace.notify(notification(queues, ended=ended))
        return Reclaimed([id for id, _, dead in rows if dead is False], [id for id, _, dead in rows if dead])

    def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        names = None if queues is None else list(dict.fromkeys(queues))
        counts = {name: Depth() for name in names or ()}
        counts.update({row[0]: Depth(*row[1:]) for row in self._namespace.query("depth", queues=names)})
        return counts

    def peek(self, queue: str, *, limit: int) -> list[Peeked]:
        rows = self._namespace.query("peek", queue=queue, limit=max(0, limit))
        return [
            Peeked(id, name, queue, priority, attempt, moment(due_at), body.encode())
            for id, name, queue, priority, attempt, due_at, body in rows
        ]

    def cancel(self, task_ids: Sequence[str], *, reason: str = "revoked") -> list[str]:
        wanted = list(dict.fromkeys(task_ids))
        if not wanted:
            return []
        ids, released, ended = self._namespace.call("cancel", wanted, reason)[0]
        if ids:
            self._namespace.notify(notification(released or (), ended=[*ids, *(ended or ())]))
        cancelled = set(ids)
        return [id for id in wanted if id in cancelled]

    def find(self, task_id: str) -> Peeked | None:
        rows = self._namespace.query("find", id=task_id)
        if not rows:
            return None
        id, name, queue, priority, attempt, due_at, body = rows[0]
        return Peeked(id, name, queue, priority, attempt, moment(due_at), body.encode())

    def purge(self, queue: str) -> int:
        up_to = self._namespace.query("last_seq")[0][0]  # what is pushed from here on stays
        purged = looks_in_vain = 0
        while (
            looks_in_vain < 2
        ):  # the first may miss what becomes ready between its look at the ready and at the delayed
            ids, released, ended = self._namespace.call("purge", queue, up_to, _PURGE_STEP)[0]
            if ids:
                self._namespace.notify(notification(released or (), ended=[*ids, *(ended or ())]))
                purged += len(ids)
            looks_in_vain = 0 if ids else looks_in_vain + 1
        return purged

    def _push_one(self, one: Push) -> Receipt:
        """Waiting workers are notified as it commits, and it is flushed before this returns."""
        namespace = self._namespace
        notice = namespace.notifier.push_notice(one.envelope.queue)
        try:
            created = self._pushed(one, notice)
        except StoreRefused as error:
            if notice is None or not is_notify_queue_full(error):
                raise
            created = self._pushed(one, None)  # waiting workers have their slow poll
        if created and notice is None:
            namespace.notify(notification([one.envelope.queue]))
        return Receipt(one.envelope.id, created=created)

    def _pushed(self, one: Push, notice: PushNotice | None) -> bool:
        namespace = self._namespace
        stored = push_one(namespace, one, notice)
        ((created,),) = namespace.client.cells(stored, None if notice is None else flushing(namespace.schema))
        return bool(created == "t")

    def _claim(
        self, queues: list[str], limit: int, lease_seconds: float
    ) -> tuple[list[Delivery], list[str], list[str]]:
        """What is leased now, the ids of what had expired, at least `_FLOOD` of them if there may be more, and queues with
        tasks that waited for these."""
        deliveries, expired, released = [], [], []
        self._empty_claim, position = None, self._namespace.listeners.work.position
        found = self._namespace.call_as_text("claim_with_priority", array(queues), str(limit), str(lease_seconds))
        for id, fence, name, queue, attempt, deaths, body, priority in found:
            if id is None:
                self._empty_claim = EmptyClaim(queues, position, _due_at(body))
            elif fence is None and queue is not None:
                released.append(queue)
            elif fence is None:
                expired.append(id)
            else:
                lease, text = Lease(id, int(fence)), body.encode()
                deliveries.append(Delivery(lease, name, queue, int(attempt), int(deaths), text, int(priority)))
        return deliveries, expired, released

    def _settle(self, batch: list[Ending], worker: str) -> list[int] | None:
        """The notification goes along, also for those that turn out to be refused: a wake-up for nothing does no harm. What
        else was released or has ended is told afterwards."""
        namespace, fresh = self._namespace, settled_change(batch)
        function, columns = settle_columns(batch)
        telling = namespace.notifier.as_statement(fresh)
        values = (namespace.name, worker, *columns, "false")
        settling = Statement(numbered(function, len(values), namespace.schema), values)
        ((held, released, ended),) = namespace.client.cells(settling, telling)
        if telling is None:
            namespace.notify(fresh)
        if released or ended:
            namespace.notify(notification(split(released), ended=split(ended)))
        return None if held is None else _numbers(held)

    def _push_and_fail(self, conn: DeadlineConnection, calls: Sequence[DeadCall], worker: str) -> list[Receipt]:
        """Store, lease and settle the calls in one transaction: nobody sees them wait."""
        namespace = self._namespace
        pushes = [Push(each.envelope) for each in calls]
        receipts, _ = push_plain(lambda q, v: conn.execute(q, v).fetchall(), namespace, pushes)
        made = {each.envelope.id: each for each, receipt in zip(calls, receipts, strict=True) if receipt.created}
        if made:
            values = {"ns": namespace.name, "ids": list(made), "attempts": [each.attempt for each in made.values()]}
            conn.execute(query_text("lease_dead", namespace.schema), values)
            columns = mixed_columns([Ending(Lease(id, 0), e.settlement, e.run_seconds) for id, e in made.items()])
            query = call("settle_mixed", len(columns) + 3, namespace.schema)
            conn.execute(query, (namespace.name, worker, *columns, False))
        return receipts

    def _refused(self, asked: Sequence[Lease], sent: list[Lease], held: list[int] | None) -> list[Lease]:
        """`held` counts from 1, as SQL does."""
        kept = {sent[place - 1] for place in held or ()}
        refused = [lease for lease in asked if lease not in kept]
        self._survived(refused)
        return refused

    def _survived(self, refused: list[Lease]) -> None:
        """A worker that reports has not died: what was reclaimed from it does not count as a death."""
        if refused:
            self._namespace.call("survived", *_columns(list(dict.fromkeys(refused))))


def _due_at(seconds: str | None) -> float:
    return monotonic() + (NEVER_SECONDS if seconds is None else float(seconds))


def _columns(leases: list[Lease]) -> tuple[str, str]:
    return column([lease.id for lease in leases]), numbers([lease.fence for lease in leases])


def _numbers(array: str) -> list[int]:
    """As the server writes them."""
    return [int(each) for each in array[1:-1].split(",") if each]
