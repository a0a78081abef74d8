"""Push, claim, keep and end tasks in Postgres: one statement a verb."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from stem.backends.postgres.bell import NOTIFY, News, Pushed, news, notices
from stem.backends.postgres.columns import array, column, json_text, numbers
from stem.backends.postgres.exchange import Statement
from stem.backends.postgres.housekeeping import Housekeeper
from stem.backends.postgres.joining import joined
from stem.backends.postgres.link import Timed
from stem.backends.postgres.pushing import push, push_one
from stem.backends.postgres.refusals import is_full_of_news
from stem.backends.postgres.settling import done_columns, mixed_columns
from stem.backends.postgres.space import Space, flushing
from stem.backends.postgres.standing import PostgresStanding
from stem.backends.postgres.statements import ask, call, numbered
from stem.backends.standing import SIT_SECONDS
from stem.contracts.broker import Broker
from stem.core.delivery import Delivery, Depth, Ending, Fallen, Lease, Peeked, Reclaimed, Report, begun_ago, survivors
from stem.core.envelope import Push, Receipt
from stem.core.errors import StoreRefused
from stem.core.outcome import Done, Requeue, Retry
from stem.core.record import moment
from stem.core.settle import MAX_DEATHS

_MOST = 2**31 - 1  # as large as the server's integers
_PURGE_STEP = 1000
_NEVER_SECONDS = 3600.0  # as good as
_FLOOD = 5000  # expired tasks after which a claim stops to commit; claim.sql says the same


@dataclass(frozen=True, slots=True)
class Emptied:
    """A claim has found less than it wanted. Who then waits need not look first, if nothing was told since."""

    queues: list[str]
    mark: int | None  # of what was told before
    due_at: float  # when the next delayed one is due, by the machine's monotonic clock


class PostgresBroker(Broker):
    def __init__(self, space: Space, housekeeper: Housekeeper) -> None:
        self._space = space
        self._housekeeper = housekeeper
        self._standing = PostgresStanding(space)
        self._emptied: Emptied | None = None  # by the last claim

    def push(self, pushes: Sequence[Push], *, connection: object | None = None) -> list[Receipt]:
        if not pushes:
            return []
        space = self._space
        if len(pushes) == 1 and pushes[0].unique is None and connection is None:
            return [self._push_one(pushes[0])]
        fresh = news({each.envelope.queue for each in pushes})
        if connection is not None:
            with joined(connection, space.link.address) as run:
                receipts = push(run, space.schema, space.namespace, pushes)
                run(NOTIFY, notices(space.bell.channel, fresh))  # heard when the caller commits
            return receipts
        receipts = push(space.link.rows, space.schema, space.namespace, pushes)
        if any(receipt.created for receipt in receipts):
            space.tell(fresh)
        return receipts

    def claim(self, queues: Sequence[str], *, limit: int, lease_seconds: float) -> list[Delivery]:
        if handed := self._standing.take():
            return handed
        names = list(dict.fromkeys(queues))
        if not names or limit <= 0:
            return []
        while True:
            deliveries, expired = self._claim(names, min(limit, _MOST), lease_seconds)
            if expired:
                self._space.tell(news(ended=expired))
                self._housekeeper.note(len(expired))
            if deliveries or len(expired) < _FLOOD:
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
        """With room it is about the seat as well."""
        names = list(dict.fromkeys(queues))
        standing, times_left = self._standing, 0 if room is None else self._standing.enter()
        if room is not None and standing.has_some:
            return True
        emptied = self._emptied
        if emptied is not None and emptied.queues != names:
            emptied = None
        due_at = _due_at(None) if emptied is None else emptied.due_at
        asked = Statement(ask("wait", self._space.schema), (self._space.namespace, array(names)))

        def is_due() -> bool:
            return room is not None and (standing.times_left != times_left or standing.is_due(names, room()))

        def look(left: float) -> bool | None:
            nonlocal due_at
            if room is not None and is_due():
                is_ready, due = standing.sit(names, room(), lease_seconds, times_left)
            else:
                ((ready, due),) = self._space.link.cells(asked, timeout_seconds=left)
                is_ready = ready == "t"
            due_at = _due_at(due)
            return True if is_ready or due_at <= monotonic() or standing.has_some else None

        def next_look() -> float:
            return SIT_SECONDS if is_due() else due_at - monotonic() + 0.001

        def concerns(told: News) -> bool:
            return told.any_queue or not told.queues.isdisjoint(names)

        # Whoever is woken claims at once: asking first whether it is worth it would only cost him the time.
        found = self._space.listeners.work.until(
            concerns,
            look,
            timeout_seconds,
            next_look,
            on_news=True,
            since=None if emptied is None else emptied.mark,
        )
        return bool(found)

    def stand_down(self, *, for_good: bool = False) -> list[Delivery]:
        return self._standing.leave(for_good=for_good)

    def start(self, leases: Sequence[Lease], *, worker: str, ago_seconds: Sequence[float] = ()) -> list[Lease]:
        began = begun_ago(leases, ago_seconds)
        if not leases:
            return []
        first = dict(zip(reversed(leases), reversed(began), strict=True))  # of two for one lease the first counts
        unique = list(dict.fromkeys(leases))
        ago = numbers([first[lease] for lease in unique])
        held = self._space.call("start", worker, *_columns(unique), ago)[0][0]
        self._space.tell(news())
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
        (held,) = self._space.call(
            "report",
            worker,
            *_columns(unique),
            column([latest[lease] for lease in unique]),
            numbers([places[report.lease] for report in reports]),
            column(progress),
            numbers([began[lease] for lease in unique]),
        )[0]
        self._space.tell(news())
        return self._refused([report.lease for report in reports], unique, held)

    def renew(self, leases: Sequence[Lease], *, lease_seconds: float) -> list[Lease]:
        if not leases:
            return []
        unique = list(dict.fromkeys(leases))
        held = self._space.call("renew", *_columns(unique), lease_seconds)[0][0]
        return self._refused(leases, unique, held)

    def settle(self, endings: Sequence[Ending], *, worker: str) -> list[Lease]:
        if not endings:
            return []
        first = {ending.lease: ending for ending in reversed(endings)}  # a second ending of a lease finds it gone
        batch = list(endings) if len(first) == len(endings) else [e for e in endings if first[e.lease] is e]
        if any(ending.follow_ups for ending in batch):
            held = self._space.link.transaction(lambda conn: self._settle_and_push(conn, batch, worker))
            self._space.tell(_told(batch))
        else:
            held = self._settle(batch, worker)
        accepted = batch if held is None else [batch[place - 1] for place in held]
        self._housekeeper.note(len(accepted))
        if held is None and len(batch) == len(endings):
            return []
        kept = {id(ending) for ending in accepted}
        refused = [ending.lease for ending in endings if id(ending) not in kept]
        self._survived(survivors(refused, endings))
        return refused

    def bury(self, fallen: Sequence[Fallen], *, worker: str) -> list[Receipt]:
        if not fallen:
            return []
        receipts = self._space.link.transaction(lambda conn: self._push_and_bury(conn, fallen, worker))
        self._space.tell(news(ended=[receipt.id for receipt in receipts if receipt.created]))
        return receipts

    def reclaim(self, *, limit: int = 1000, max_deaths: int = MAX_DEATHS, grace_seconds: float = 0.0) -> Reclaimed:
        rows = self._space.call("reclaim", min(limit, _MOST), min(max_deaths, _MOST), grace_seconds)
        if rows:
            self._space.tell(
                news({queue for _, queue, dead in rows if not dead}, ended=[id for id, _, dead in rows if dead])
            )
        return Reclaimed([id for id, _, dead in rows if not dead], [id for id, _, dead in rows if dead])

    def depth(self, queues: Sequence[str] | None = None) -> dict[str, Depth]:
        names = None if queues is None else list(dict.fromkeys(queues))
        counts = {name: Depth() for name in names or ()}
        counts.update({row[0]: Depth(*row[1:]) for row in self._space.ask("depth", queues=names)})
        return counts

    def peek(self, queue: str, *, limit: int) -> list[Peeked]:
        rows = self._space.ask("peek", queue=queue, limit=max(0, limit))
        return [
            Peeked(id, name, queue, priority, attempt, moment(due_at), body.encode())
            for id, name, queue, priority, attempt, due_at, body in rows
        ]

    def cancel(self, task_ids: Sequence[str], *, reason: str = "revoked") -> list[str]:
        wanted = list(dict.fromkeys(task_ids))
        cancelled = set(self._space.call("cancel", wanted, reason)[0][0]) if wanted else set()
        if cancelled:
            self._space.tell(news(ended=list(cancelled)))
        return [id for id in wanted if id in cancelled]

    def find(self, task_id: str) -> Peeked | None:
        rows = self._space.ask("find", id=task_id)
        if not rows:
            return None
        id, name, queue, priority, attempt, due_at, body = rows[0]
        return Peeked(id, name, queue, priority, attempt, moment(due_at), body.encode())

    def purge(self, queue: str) -> int:
        up_to = self._space.ask("last_seq")[0][0]  # what is pushed from here on stays
        purged = looks_in_vain = 0
        while (
            looks_in_vain < 2
        ):  # the first may miss what becomes ready between its look at the ready and at the delayed
            ids = self._space.call("purge", queue, up_to, _PURGE_STEP)[0][0]
            if ids:
                self._space.tell(news(ended=ids))
                purged += len(ids)
            looks_in_vain = 0 if ids else looks_in_vain + 1
        return purged

    def _push_one(self, one: Push) -> Receipt:
        """Whoever waits for it is told as it commits, and it is flushed before this returns."""
        space = self._space
        told = space.bell.along(one.envelope.queue)
        try:
            created = self._pushed(one, told)
        except StoreRefused as error:
            if told is None or not is_full_of_news(error):
                raise
            created = self._pushed(one, None)  # those who wait have their slow poll
        if created and told is None:
            space.tell(news([one.envelope.queue]))
        return Receipt(one.envelope.id, created=created)

    def _pushed(self, one: Push, told: Pushed | None) -> bool:
        space = self._space
        stored = push_one(space.schema, space.namespace, one, told)
        ((created,),) = space.link.cells(stored, None if told is None else flushing(space.schema))
        return bool(created == "t")

    def _claim(self, queues: list[str], limit: int, lease_seconds: float) -> tuple[list[Delivery], list[str]]:
        """What is leased now, and the ids of what had expired, at least `_FLOOD` of them if there may be more."""
        deliveries, expired = [], []
        self._emptied, mark = None, self._space.listeners.work.mark
        found = self._space.quick("claim", array(queues), str(limit), str(lease_seconds))
        for id, fence, name, queue, attempt, deaths, body in found:
            if id is None:
                self._emptied = Emptied(queues, mark, _due_at(body))
            elif fence is None:
                expired.append(id)
            else:
                lease = Lease(id, int(fence))
                deliveries.append(Delivery(lease, name, queue, int(attempt), int(deaths), body.encode()))
        return deliveries, expired

    def _settle(self, batch: list[Ending], worker: str) -> list[int] | None:
        """The news go along with it, also of those that turn out to be refused: who is woken for nothing sleeps again."""
        space, fresh = self._space, _told(batch)
        function, columns = self._columns(batch)
        telling = space.bell.aboard(fresh)
        settling = Statement(numbered(function, len(columns) + 2, space.schema), (space.namespace, worker, *columns))
        ((held,),) = space.link.cells(settling, telling)
        if telling is None:
            space.tell(fresh)
        return None if held is None else _numbers(held)

    def _settle_and_push(self, conn: Timed, batch: list[Ending], worker: str) -> list[int] | None:
        space = self._space
        function, columns = self._columns(batch)
        query = call(function, len(columns) + 2, space.schema)
        held: list[int] | None = conn.execute(query, (space.namespace, worker, *columns)).fetchall()[0][0]
        accepted = batch if held is None else [batch[place - 1] for place in sorted(held)]
        follow_ups = [follow_up for ending in accepted for follow_up in ending.follow_ups]
        if follow_ups:
            push(lambda q, v: conn.execute(q, v).fetchall(), space.schema, space.namespace, follow_ups)
        return held

    def _push_and_bury(self, conn: Timed, fallen: Sequence[Fallen], worker: str) -> list[Receipt]:
        """Pushed, leased and settled in one transaction: nobody sees them wait."""
        space = self._space
        pushes = [Push(each.envelope) for each in fallen]
        receipts = push(lambda q, v: conn.execute(q, v).fetchall(), space.schema, space.namespace, pushes)
        made = {each.envelope.id: each for each, receipt in zip(fallen, receipts, strict=True) if receipt.created}
        if made:
            told = {"ns": space.namespace, "ids": list(made), "attempts": [each.attempt for each in made.values()]}
            conn.execute(ask("take_in", space.schema), told)
            columns = mixed_columns([Ending(Lease(id, 0), e.settlement, e.run_seconds) for id, e in made.items()])
            query = call("settle", len(columns) + 2, space.schema)
            conn.execute(query, (space.namespace, worker, *columns))
        return receipts

    def _refused(self, asked: Sequence[Lease], sent: list[Lease], held: list[int] | None) -> list[Lease]:
        """`held` counts from 1, as SQL does."""
        kept = {sent[place - 1] for place in held or ()}
        refused = [lease for lease in asked if lease not in kept]
        self._survived(refused)
        return refused

    def _survived(self, refused: list[Lease]) -> None:
        """Whoever speaks has not died: what was reclaimed from it counts as no death."""
        if refused:
            self._space.call("survived", *_columns(list(dict.fromkeys(refused))))

    def _columns(self, batch: list[Ending]) -> tuple[str, list[str]]:
        if all(isinstance(ending.settlement, Done) and not ending.facts for ending in batch):
            return "settle_done", done_columns(batch)
        return "settle", mixed_columns(batch)


def _due_at(seconds: str | None) -> float:
    return monotonic() + (_NEVER_SECONDS if seconds is None else float(seconds))


def _columns(leases: list[Lease]) -> tuple[str, str]:
    return column([lease.id for lease in leases]), numbers([lease.fence for lease in leases])


def _told(batch: list[Ending]) -> News:
    queues = {push.envelope.queue for ending in batch for push in ending.follow_ups}
    ended = [each.lease.id for each in batch if not isinstance(each.settlement, Retry | Requeue)]
    return news(queues, ended=ended, any_queue=len(ended) < len(batch))


def _numbers(array: str) -> list[int]:
    """As the server writes them."""
    return [int(each) for each in array[1:-1].split(",") if each]
