"""A store and the memory model get the same calls, whatever Hypothesis can think of, and must agree."""

import os
from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, Delivery, Ending, Lease, Report
from stem.core.envelope import Push, Unique
from stem.core.event import Event
from stem.core.lifecycle import State
from stem.core.outcome import Cancelled, Dead, Done, Requeue, Retry, Settlement
from stem.core.record import TaskError, TaskFilter, TaskRecord
from stem.core.settings.app import Settings
from support.builders import a_push
from support.stores.calls import let_time_pass
from support.stores.lifecycle_check import walk
from support.stores.snapshot import epitaph, fact, known, told
from support.until import until

IS_DEEP = os.environ.get("STEM_HYPOTHESIS") == "deep"
QUEUES = ["q1", "q2"]
HOUR = 3600.0
_spaces = count(1)


def bounds(examples: int, steps: int) -> settings:
    """How much is tried: little by default, always the same; the deep run takes its minutes to look for more."""
    return settings(
        max_examples=1000 if IS_DEEP else examples,
        stateful_step_count=80 if IS_DEEP else steps,
        derandomize=not IS_DEEP,
        database=None,
        deadline=None,
        print_blob=True,
        report_multiple_bugs=False,
        # A failure is told at once, with its steps; the deep run takes its minutes to make them few.
        phases=list(Phase) if IS_DEEP else [Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


# What is listed more than once is drawn more often: most tasks are plain, most waits short, most leases run out.
delays = st.sampled_from([0.0, 0.0, 0.0, HOUR])
leases = st.sampled_from([0.0, 0.0, HOUR])
pushes = st.fixed_dictionaries(
    {
        "again": st.sampled_from([None, None, None, 0, 1]),  # an id that was pushed before, counted from the newest
        "queue": st.sampled_from(QUEUES),
        "priority": st.sampled_from([5, 5, 0, 9]),
        "delay": st.sampled_from([None, None, None, 0.0, HOUR]),
        "expires": st.sampled_from([None, None, None, None, HOUR, 0.0]),
        "unique": st.sampled_from([None, None, Unique("k1"), Unique("k2"), Unique("k1", HOUR)]),
        "meta": st.sampled_from([{}, {"tenant": "a", "deep": {"x": 1}}]),
        "visibility_timeout": st.sampled_from([None, None, None, HOUR]),
    }
)
batches = st.lists(pushes, min_size=1, max_size=3)
errors = st.builds(TaskError, st.sampled_from(["E1", "E2"]), st.just("went wrong"), retryable=st.booleans())
values = st.sampled_from([msgspec.Raw(b"null"), msgspec.Raw(b'{"v":[]}')])
deaths = st.builds(Dead, st.sampled_from(["not-retryable", "retries-exhausted"]), errors, st.just({"n": 1}))
returns = st.one_of(
    st.builds(Retry, delays, errors),
    st.builds(Requeue, delays, st.just("why"), throttled=st.booleans(), died=st.booleans()),
)
settlements = st.one_of(
    st.builds(Done, values),
    returns,
    deaths,
    st.builds(Cancelled, st.just("revoked")),
)
metas = st.sampled_from([{}, {}, {"host": "h"}, {"deep": {"y": 2}}])
# Which of the deliveries ever made, counted from the newest: late holders keep trying.
picks = st.lists(st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5, 8]), min_size=1, max_size=3)
# What empties the stores is done now and then only, or there would be little left to disagree about.
seldom = st.sampled_from([False, False, False, True])
filters = st.one_of(
    st.just(DeadFilter()),
    st.builds(lambda queue: DeadFilter(queue=queue), st.sampled_from(QUEUES)),
    st.builds(lambda ids: DeadFilter(ids=tuple(ids)), st.lists(st.sampled_from(["t1", "t2", "t3"]), max_size=3)),
    st.builds(lambda reason: DeadFilter(reason=reason), st.sampled_from(["crash-loop", "not-retryable"])),
)


class Twins(RuleBasedStateMachine):
    """Both stores get the same call; what they answer, and all that can be asked of them after, must agree.

    Fences differ between stores, so a lease is a pair: the model's and the store's.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        space = f"twin{next(_spaces)}"
        self.model = connect(f"memory://{space}", Settings(namespace=space))
        self.store = connect(url, Settings(namespace=space))
        self.ids: list[str] = []
        self.held: list[tuple[Delivery, Delivery]] = []
        self.followed: tuple[str | None, str | None] = (None, None)
        self.events: dict[str, list[Event]] = {}
        self.batch_of_death: dict[str, int] = {}

    def teardown(self) -> None:
        self.store.upkeep.close()
        self.model.upkeep.close()

    @rule(wanted=batches)
    def push(self, wanted: list[dict[str, Any]]) -> None:
        batch = [self._push(each) for each in wanted]
        assert self.store.broker.push(batch) == self.model.broker.push(batch)

    @rule(queues=st.sampled_from([["q1"], ["q2"], QUEUES]), limit=st.integers(1, 4), lease_seconds=leases)
    def claim(self, queues: list[str], limit: int, lease_seconds: float) -> None:
        there = self.store.broker.claim(queues, limit=limit, lease_seconds=lease_seconds)
        here = self.model.broker.claim(queues, limit=limit, lease_seconds=lease_seconds)
        assert [told(delivery) for delivery in there] == [told(delivery) for delivery in here]
        newest = max((real.lease.fence for _, real in self.held), default=0)
        assert all(delivery.lease.fence > newest for delivery in there)
        self.held += zip(here, there, strict=True)

    @rule(wanted=batches, is_started=st.booleans(), lease_seconds=leases)
    def push_and_claim(self, wanted: list[dict[str, Any]], is_started: bool, lease_seconds: float) -> None:
        self.push(wanted)
        self.claim(QUEUES, 4, lease_seconds)
        if is_started and self.held:
            self.start([0, 1])

    @precondition(lambda self: self.held)
    @rule(picked=picks)
    def start(self, picked: list[int]) -> None:
        pairs = self._pairs(picked)
        refused = self.store.broker.start([real.lease for _, real in pairs], worker="w1")
        self._same_refused(pairs, self.model.broker.start([mine.lease for mine, _ in pairs], worker="w1"), refused)

    @precondition(lambda self: self.held)
    @rule(picked=picks, progress=st.sampled_from([None, {"percent": 1}, {"percent": 2, "more": []}]))
    def report(self, picked: list[int], progress: dict[str, Any] | None) -> None:
        pairs = self._pairs(picked)
        refused = self.store.broker.report([Report(real.lease, progress) for _, real in pairs], worker="w2")
        expected = self.model.broker.report([Report(mine.lease, progress) for mine, _ in pairs], worker="w2")
        self._same_refused(pairs, expected, refused)

    @precondition(lambda self: self.held)
    @rule(picked=picks, lease_seconds=st.sampled_from([0.0, HOUR]))
    def renew(self, picked: list[int], lease_seconds: float) -> None:
        pairs = self._pairs(picked)
        refused = self.store.broker.renew([real.lease for _, real in pairs], lease_seconds=lease_seconds)
        expected = self.model.broker.renew([mine.lease for mine, _ in pairs], lease_seconds=lease_seconds)
        self._same_refused(pairs, expected, refused)

    @precondition(lambda self: self.held)
    @rule(picked=picks, settlement=returns, lease_seconds=leases)
    def come_back(self, picked: list[int], settlement: Settlement, lease_seconds: float) -> None:
        self.settle(picked, [settlement] * 3, True, {}, [])
        self.claim(QUEUES, 4, lease_seconds)

    @precondition(lambda self: self.held)
    @rule(picked=picks, value=values)
    def finish(self, picked: list[int], value: msgspec.Raw) -> None:
        self.settle(picked, [Done(value)] * 3, True, {}, [])

    @precondition(lambda self: self.held)
    @rule(picked=picks, settlement=deaths)
    def die(self, picked: list[int], settlement: Settlement) -> None:
        self.settle(picked, [settlement] * 3, True, {}, [])

    @precondition(lambda self: self.held)
    @rule(
        picked=picks,
        chosen=st.lists(settlements, min_size=3, max_size=3),
        has_run=st.booleans(),
        meta=metas,
        follow_ups=st.one_of(st.just([]), st.just([]), batches),
    )
    def settle(
        self,
        picked: list[int],
        chosen: list[Settlement],
        has_run: bool,
        meta: dict[str, Any],
        follow_ups: list[dict[str, Any]],
    ) -> None:
        then = [self._follow_up(each) for each in follow_ups]
        pairs = self._pairs(picked)
        here, there = [], []
        for (mine, real), wanted in zip(pairs, chosen, strict=False):
            settlement = self._legal(mine, wanted)
            ran = 0.0 if has_run or isinstance(settlement, Done | Retry) else None
            if isinstance(settlement, Requeue) and settlement.throttled:
                ran = None
            here.append(Ending(mine.lease, settlement, ran, meta, tuple(then)))
            there.append(Ending(real.lease, settlement, ran, meta, tuple(then)))
        refused = self.store.broker.settle(there, worker="w3")
        self._same_refused(pairs, self.model.broker.settle(here, worker="w3"), refused)

    @rule(max_deaths=st.sampled_from([1, 2, 3]))
    def reclaim(self, max_deaths: int) -> None:
        let_time_pass(self.store, 0.002)
        there = self.store.broker.reclaim(max_deaths=max_deaths)
        here = self.model.broker.reclaim(max_deaths=max_deaths)
        # Leases of one claim end at one moment; which of them goes first is nobody's promise.
        assert sorted(there.returned) == sorted(here.returned)
        assert sorted(there.dead) == sorted(here.dead)
        self._buried(here.dead, at_once=True)

    @rule(where=filters, delay_seconds=delays, dry_run=st.booleans())
    def replay(self, where: DeadFilter, delay_seconds: float, dry_run: bool) -> None:
        there = self.store.deadletters.replay(where, delay_seconds=delay_seconds, dry_run=dry_run)
        here = self.model.deadletters.replay(where, delay_seconds=delay_seconds, dry_run=dry_run)
        assert sorted(there) == sorted(here)
        self._newest_first(there)
        for id in there if not dry_run else ():
            self.batch_of_death.pop(id, None)

    @rule(where=filters, is_meant=seldom)
    def purge_letters(self, where: DeadFilter, is_meant: bool) -> None:
        where = where if is_meant else DeadFilter(ids=("nobody",))
        assert self.store.deadletters.purge(where) == self.model.deadletters.purge(where)

    @rule(queue=st.sampled_from(QUEUES), is_meant=seldom)
    def purge(self, queue: str, is_meant: bool) -> None:
        queue = queue if is_meant else "empty"
        assert self.store.broker.purge(queue) == self.model.broker.purge(queue)

    @rule(picked=picks, is_meant=seldom)
    def cancel(self, picked: list[int], is_meant: bool) -> None:
        named = [self.ids[-1 - pick] for pick in picked if is_meant and pick < len(self.ids)]
        assert sorted(self.store.broker.cancel(named)) == sorted(self.model.broker.cancel(named))

    @invariant()
    def counts_agree(self) -> None:
        assert self.store.broker.depth() == self.model.broker.depth()
        assert self.store.broker.depth(["q1", "q9"]) == self.model.broker.depth(["q1", "q9"])

    @invariant()
    def waiting_tasks_agree(self) -> None:
        for queue in QUEUES:
            there, here = (self._peek(each, queue) for each in (self.store, self.model))
            assert there == here

    @invariant()
    def records_agree(self) -> None:
        there, here = (each.results.get(self.ids) for each in (self.store, self.model))
        assert {id: self._known(each) for id, each in there.items()} == {
            id: self._known(each) for id, each in here.items()
        }
        listed, expected = (each.results.page(TaskFilter(), limit=100).items for each in (self.store, self.model))
        assert [each.id for each in listed] == [each.id for each in expected]

    @invariant()
    def dead_letters_agree(self) -> None:
        there, here = (each.deadletters.page(DeadFilter(), limit=100).items for each in (self.store, self.model))
        self._buried([letter.id for letter in reversed(here)], at_once=False)
        assert {letter.id: epitaph(letter) for letter in there} == {letter.id: epitaph(letter) for letter in here}
        self._newest_first([letter.id for letter in there])

    @invariant()
    def logs_agree(self) -> None:
        fresh: list[dict[str, list[Event]]] = []
        heads: list[str | None] = []
        expected = len(self.model.events.read(self.followed[1], limit=1000))
        # Where writers may commit out of turn, a reader sees an event once all older transactions have ended.
        until(lambda: len(self.store.events.read(self.followed[0], limit=1000)) >= expected)
        for each, after in zip((self.store, self.model), self.followed, strict=True):
            events = each.events.read(after, limit=1000)
            heads.append(events[-1].offset if events else after)
            if each is self.store:
                self._heard(events)
            by_task: dict[str, list[Event]] = {}
            for event in events:
                by_task.setdefault(event.task_id, []).append(event)
            fresh.append(by_task)
        self.followed = (heads[0], heads[1])
        facts = [{id: [self._fact(event) for event in events] for id, events in each.items()} for each in fresh]
        assert facts[0] == facts[1]
        for id, events in fresh[0].items():
            self.events.setdefault(id, []).extend(events)
            assert walk(self.events[id]) == self.model.results.get([id])[id].state

    def _heard(self, events: list[Event]) -> None:
        """What is new in the store's log, in order."""

    def _known(self, record: TaskRecord) -> dict[str, Any]:
        return known(record)

    def _fact(self, event: Event) -> tuple[Any, ...]:
        return fact(event)

    def _follow_up(self, wanted: dict[str, Any]) -> Push:
        return self._push(wanted)

    def _push(self, wanted: dict[str, Any]) -> Push:
        again, rest = wanted["again"], {name: value for name, value in wanted.items() if name != "again"}
        if again is None or again >= len(self.ids):
            self.ids.append(f"t{len(self.ids)}")
            return a_push(self.ids[-1], **rest)
        return a_push(self.ids[-1 - again], **rest)

    def _pairs(self, picked: Sequence[int]) -> list[tuple[Delivery, Delivery]]:
        return [self.held[-1 - n % len(self.held)] for n in picked]

    def _same_refused(
        self, pairs: list[tuple[Delivery, Delivery]], expected: list[Lease], refused: list[Lease]
    ) -> None:
        real_of = {mine.lease: real.lease for mine, real in pairs}
        assert refused == [real_of[lease] for lease in expected]

    def _legal(self, mine: Delivery, wanted: Settlement) -> Settlement:
        """A limiter speaks before the start, so a running task is never throttled."""
        if isinstance(wanted, Requeue) and wanted.throttled:
            record = self.model.results.get([mine.lease.id]).get(mine.lease.id)
            if record is not None and record.state is State.RUNNING:
                return msgspec.structs.replace(wanted, throttled=False)
        return wanted

    def _peek(self, store: Store, queue: str) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """The ready in order; the delayed as a set, since some stores date a whole batch with one moment."""
        horizon = store.upkeep.now() + HOUR / 2
        peeked = store.broker.peek(queue, limit=100)
        ready = [each for each in peeked if each.due_at.timestamp() < horizon]
        delayed = [each for each in peeked if each.due_at.timestamp() >= horizon]
        assert peeked == ready + delayed
        facts = [[(p.id, p.name, p.queue, p.priority, p.attempt, p.body) for p in part] for part in (ready, delayed)]
        return facts[0], sorted(facts[1])

    def _buried(self, ids: list[str], *, at_once: bool) -> None:
        """Remember in which order tasks died; those that died at once have no order among themselves."""
        dead = {letter.id for letter in self.model.deadletters.page(DeadFilter(), limit=100).items}
        for id in [id for id in self.batch_of_death if id not in dead or (at_once and id in ids)]:
            del self.batch_of_death[id]
        number = max(self.batch_of_death.values(), default=0) + 1
        for id in ids:
            if id not in self.batch_of_death:
                self.batch_of_death[id] = number
                number += not at_once

    def _newest_first(self, ids: list[str]) -> None:
        batches = [self.batch_of_death[id] for id in ids if id in self.batch_of_death]
        assert batches == sorted(batches, reverse=True)
