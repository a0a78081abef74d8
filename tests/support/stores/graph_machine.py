"""A store and the memory model get the same graphs of tasks, and nothing starts before its time or waits for ever."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from stem.core.delivery import DeadFilter, Ending
from stem.core.envelope import Push, Supersedes, Unique
from stem.core.errors import StoreRefused
from stem.core.event import Event
from stem.core.lifecycle import EventKind, State
from stem.core.outcome import Block, Cancelled, Dead, Done, Requeue, Retry, Settlement
from stem.core.prerequisites import JOIN, OnFailure, first_cause
from stem.core.record import TaskError, TaskRecord
from support.builders import a_push
from support.stores.model_machine import HOUR, QUEUES, Twins, seldom
from support.stores.snapshot import fact, known

T = TypeVar("T")
LATE = "late"  # the queue of all that expires before it can start
FAR = st.integers(0, 7)  # counted from the newest

nodes = st.fixed_dictionaries(
    {
        "after": st.lists(st.sampled_from([0, 0, 1, 1, 2, 3, 5, 8]), max_size=3),
        "on_failure": st.sampled_from([OnFailure.CANCEL, OnFailure.CANCEL, OnFailure.RUN, OnFailure.ONLY]),
        "is_join": st.sampled_from([False, False, True]),
        "into": st.sampled_from([None, None, 0, 1]),  # one of the open joins
        "queue": st.sampled_from([*QUEUES * 4, LATE]),
        "priority": st.sampled_from([5, 5, 9]),
        "delay": st.sampled_from([None] * 8 + [0.0, HOUR]),
    }
)
graphs = st.lists(nodes, min_size=2, max_size=6)
keys = st.sampled_from([None, None, Unique("g1"), Unique("g1", HOUR)])
series = st.builds(
    Unique,
    st.just("g1"),
    st.sampled_from([None, HOUR]),
    st.sampled_from([Supersedes.WAITING, Supersedes.RUNNING]),
    st.sampled_from([None, 0.0, 2 * HOUR]),
)
ERROR = TaskError("E1", "went wrong")
DONE, DEAD = Done(msgspec.Raw(b"1")), Dead("not-retryable", ERROR)
ends = st.sampled_from([DONE, DONE, DONE, DONE, DEAD, DEAD, Cancelled("why"), Cancelled("why", passes=True)])
waves = st.lists(st.one_of(ends, st.just(Retry(0.0, ERROR))), min_size=1, max_size=5)
names = st.sampled_from(["s1", "s2"])
words = st.sampled_from([msgspec.Raw(b"null"), msgspec.Raw(b"[1]")])

_FAILURES = frozenset({EventKind.FAILED, EventKind.REVOKED, EventKind.EXPIRED})
_SUCCESSES = frozenset({EventKind.SUCCEEDED, EventKind.JOINED})
_HOLDING_BACK = _FAILURES | {EventKind.BLOCKED}
_BEGINNINGS = frozenset({EventKind.RELEASED, EventKind.STARTED, EventKind.JOINED})


class GraphTwins(Twins):
    """Its graphs have no circles. Where the order within one call is nobody's promise, such calls are not made: superseding
    pushes come alone, and what follows an ending has no unique key."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.waits: dict[str, set[str]] = {}  # for what a task may have to wait
        self.required: dict[str, set[str]] = {}  # for what it has to, before it starts
        self.blocked_on: dict[str, set[str]] = {}  # for what it has to, once it has run
        self.on_failure: dict[str, OnFailure] = {}
        self.joins: list[str] = []
        self.lonely: set[str] = set()  # those that expire beside others: nothing waits for them
        self.passing: set[str] = set()
        self.succeeded: set[str] = set()
        self.failed: set[str] = set()
        self.blocked: set[str] = set()
        self.releasable: set[str] = set()

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self.drive_to_the_end()
        finally:
            super().teardown()

    @rule(wanted=graphs, unique=keys)
    def push_graph(self, wanted: list[dict[str, Any]], unique: Unique | None) -> None:
        batch = self._nodes(wanted)
        if not batch[-1].envelope.is_join:
            batch[-1] = msgspec.structs.replace(batch[-1], unique=unique)
        self._push_both(batch)

    @rule(wanted=graphs, endings=st.lists(waves, min_size=1, max_size=3))
    def push_and_run(self, wanted: list[dict[str, Any]], endings: list[list[Settlement]]) -> None:
        self._push_both(self._nodes(wanted))
        for each in endings:
            self.run(each, False)

    @rule(wanted=nodes, is_unknown=st.booleans())
    def push_in_vain(self, wanted: dict[str, Any], is_unknown: bool) -> None:
        """It names a prerequisite that is not there, or a join that has ended for good."""
        batch = self._nodes([wanted, wanted])
        last = batch[-1].envelope
        if is_unknown:
            last = msgspec.structs.replace(last, after=(*last.after, "nobody"))
        ended = [id for id in self.joins if id not in self._open_joins()]
        into = batch[-1].into if is_unknown or not ended else ended[-1]
        self._push_both([batch[0], msgspec.structs.replace(batch[-1], envelope=last, into=into)])

    @rule(unique=series, delay=st.sampled_from([None, HOUR, HOUR]), after=st.lists(FAR, max_size=1))
    def push_instead(self, unique: Unique, delay: float | None, after: list[int]) -> None:
        prerequisites = self._picked(after, [])
        self.ids.append(f"t{len(self.ids)}")
        self._push_both([a_push(self.ids[-1], queue="q1", unique=unique, delay=delay, after=prerequisites)])

    @precondition(lambda self: self.held)
    @rule(pick=FAR, settlement=ends)
    def end(self, pick: int, settlement: Settlement) -> None:
        mine, _ = self._pairs([pick])[0]
        if isinstance(settlement, Cancelled) and settlement.passes:
            self.passing.add(mine.lease.id)
        self.settle([pick], [settlement] * 3, True, {}, [])

    @rule(endings=waves, has_step=st.booleans())
    def run(self, endings: list[Settlement], has_step: bool) -> None:
        """So many of what is due end in one batch."""
        before = len(self.held)
        self.claim(QUEUES, len(endings), HOUR)
        fresh = len(self.held) - before
        for (mine, _), settlement in zip(self._pairs(range(fresh)), endings, strict=False):
            if isinstance(settlement, Cancelled) and settlement.passes:
                self.passing.add(mine.lease.id)
        if fresh and has_step:
            self.keep_step(0, "s1", msgspec.Raw(b"1"))
        if fresh:
            self.settle([*range(fresh)], endings, True, {}, [])

    @rule(endings=waves)
    def replay_and_run(self, endings: list[Settlement]) -> None:
        self.replay(DeadFilter(), 0.0, False)
        self.run(endings, True)

    @precondition(lambda self: self.held)
    @rule(pick=FAR, after=st.lists(FAR, max_size=2), wanted=st.one_of(st.just([]), graphs), has_run=st.booleans())
    def block(self, pick: int, after: list[int], wanted: list[dict[str, Any]], has_run: bool) -> None:
        mine, real = self._pairs([pick])[0]
        then = tuple(msgspec.structs.replace(each, into=None) for each in self._nodes(wanted))
        waits_for = [id for id in self._picked(after, []) if not self._reaches(id, mine.lease.id)]
        waits_for += [push.envelope.id for push in then if not self._waits_for_any(push, mine.lease.id)]
        self.waits.setdefault(mine.lease.id, set()).update(waits_for)
        ran = 0.0 if has_run else None
        here, there = (Ending(each.lease, Block(tuple(waits_for)), ran, {}, then) for each in (mine, real))
        answers = self._answers(
            lambda: self.store.broker.settle([there], worker="w4"),
            lambda: self.model.broker.settle([here], worker="w4"),
        )
        if answers is not None:
            self._same_refused([(mine, real)], answers[1], answers[0])
            if not answers[0]:
                self.blocked_on.setdefault(mine.lease.id, set()).update(waits_for)
                self._stored(then)

    @rule(event=names, delay=st.sampled_from([0.0, HOUR, HOUR]), is_sent_after=st.booleans())
    def wait_for_event(self, event: str, delay: float, is_sent_after: bool) -> None:
        before = len(self.held)
        self.claim(QUEUES, 1, HOUR)
        if len(self.held) > before:
            self.settle([0], [Requeue(delay, "waits", event=event)], False, {}, [])
            if is_sent_after:
                self._send(self.held[-1][0].lease.id, event, msgspec.Raw(b"1"))

    @precondition(lambda self: self.ids)
    @rule(pick=FAR, event=names, data=words)
    def send(self, pick: int, event: str, data: msgspec.Raw) -> None:
        self._send(self.ids[-1 - pick % len(self.ids)], event, data)

    @precondition(lambda self: self.held)
    @rule(pick=FAR, name=names, result=words)
    def keep_step(self, pick: int, name: str, result: msgspec.Raw) -> None:
        mine, real = self._pairs([pick])[0]
        there = self.store.steps.record(real.lease, name, result)
        assert there == self.model.steps.record(mine.lease, name, result)

    @rule()
    def expire_late(self) -> None:
        """Whether a claim goes on to what its own expiries have released is nobody's promise."""
        for each in (self.store, self.model):
            while each.broker.depth([LATE])[LATE].ready:
                assert each.broker.claim([LATE], limit=10, lease_seconds=0) == []

    @rule(is_meant=seldom)
    def purge_late(self, is_meant: bool) -> None:
        self.purge(LATE, is_meant)

    @invariant()
    def the_newest_agree(self) -> None:
        self._same(self.ids[-2:])

    def drive_to_the_end(self) -> None:
        """All that can run runs, and what is due in an hour is cancelled; then nothing waits for anything."""
        self._same(self.ids)
        if self.held:
            self.settle([*range(len(self.held))], [DONE] * len(self.held), True, {}, [])
        while True:
            self.expire_late()
            before = len(self.held)
            self.claim(QUEUES, 100, HOUR)
            if fresh := len(self.held) - before:
                self.settle([*range(fresh)], [DONE] * fresh, True, {}, [])
                continue
            waiting = [p.id for queue in [*QUEUES, LATE] for p in self.model.broker.peek(queue, limit=1000)]
            if not waiting:
                break
            assert sorted(self.store.broker.cancel(waiting)) == sorted(self.model.broker.cancel(waiting))
        self.counts_agree()
        self.records_agree()
        self.logs_agree()
        counts = self.store.broker.depth().values()
        assert all((each.ready, each.delayed, each.running, each.blocked) == (0, 0, 0, 0) for each in counts)
        assert all(record.is_terminal for record in self.store.results.get(self.ids).values())

    def _send(self, id: str, event: str, data: msgspec.Raw) -> None:
        assert self.store.steps.send(id, event, data) == self.model.steps.send(id, event, data)

    def _same(self, ids: list[str]) -> None:
        """Of each task, what can be found while it lives, and its steps."""
        for id in ids:
            there, here = (each.broker.find(id) for each in (self.store, self.model))
            assert (there is None) == (here is None)
            if there is not None and here is not None:
                assert (there.id, there.queue, there.attempt) == (here.id, here.queue, here.attempt)
                assert there.body == here.body
            kept = ([(s.name, bytes(s.payload)) for s in each.steps.all(id)] for each in (self.store, self.model))
            assert next(kept) == next(kept)

    def _nodes(self, wanted: list[dict[str, Any]]) -> list[Push]:
        batch: list[Push] = []
        for each in wanted:
            batch.append(self._node(each, [push.envelope.id for push in batch]))
        return batch

    def _node(self, wanted: dict[str, Any], earlier: list[str]) -> Push:
        after = self._picked(wanted["after"], earlier)
        self.ids.append(id := f"t{len(self.ids)}")
        self.waits[id] = set(after)
        rest: dict[str, Any] = {name: wanted[name] for name in ("on_failure", "queue", "priority", "delay")}
        into = None
        if wanted["into"] is not None and (joins := self._open_joins()):
            join = joins[-1 - wanted["into"] % len(joins)]
            into = None if self._reaches(id, join) else join
        if wanted["is_join"]:
            self.joins.append(id)
            return a_push(id, name=JOIN, after=after, into=into, args={"of": after}, **rest)
        return a_push(id, after=after, into=into, expires=0.0 if wanted["queue"] == LATE else None, **rest)

    def _open_joins(self) -> list[str]:
        """Those that are blocked or can be revived."""
        return [id for id in self.joins if self.model.broker.find(id) is not None]

    def _push(self, wanted: dict[str, Any]) -> Push:
        push = super()._push(wanted)
        if wanted["expires"] == 0.0:
            self.lonely.add(push.envelope.id)
        return push

    def _follow_up(self, wanted: dict[str, Any]) -> Push:
        return msgspec.structs.replace(self._push(wanted), unique=None)

    def _push_both(self, batch: list[Push]) -> None:
        answers = self._answers(lambda: self.store.broker.push(batch), lambda: self.model.broker.push(batch))
        if answers is not None:
            assert answers[0] == answers[1]
            self._stored(batch)

    def _stored(self, pushes: Any) -> None:
        stored = self.model.results.get([push.envelope.id for push in pushes])
        for push in pushes:
            if push.envelope.id in stored:
                self.required.setdefault(push.envelope.id, set()).update(push.envelope.after)
                self.on_failure[push.envelope.id] = push.envelope.on_failure
                if push.into is not None:
                    self.required[push.into].add(push.envelope.id)
                    self.waits[push.into].add(push.envelope.id)

    def _answers(self, there: Callable[[], T], here: Callable[[], T]) -> tuple[T, T] | None:
        """What the store and the model say, or None if both refuse; one of them alone never does."""
        try:
            expected = here()
        except StoreRefused:
            with pytest.raises(StoreRefused):
                there()
            return None
        return there(), expected

    def _picked(self, far: list[int], earlier: list[str]) -> list[str]:
        """Tasks that are stored, or come earlier in the batch, and may be waited for."""
        known = self.model.results.get(self.ids)
        candidates = [id for id in self.ids if id not in self.lonely and (id in known or id in earlier)]
        return [candidates[-1 - n] for n in far if n < len(candidates)]

    def _reaches(self, id: str, target: str) -> bool:
        """Whether a task waits, perhaps over others, for the target."""
        seen, found = set[str](), [id]
        while found:
            if (each := found.pop()) == target:
                return True
            if each not in seen:
                seen.add(each)
                found += self.waits.get(each, ())
        return False

    def _waits_for_any(self, push: Push, target: str) -> bool:
        return any(self._reaches(id, target) for id in push.envelope.after)

    def _known(self, record: TaskRecord) -> dict[str, Any]:
        """Of several causes in one call any may be the first."""
        cause = first_cause(record.error) if record.state is State.CANCELLED else None
        assert cause is None or cause in self.ids
        return known(record) if cause is None else known(record) | {"error": "PrerequisiteFailed"}

    def _fact(self, event: Event) -> tuple[Any, ...]:
        *rest, data = fact(event)
        return (*rest, {name: value for name, value in data.items() if name != "cause"})

    def _heard(self, events: list[Event]) -> None:
        for event in events:
            self._check_turn(event)

    def _check_turn(self, event: Event) -> None:
        """A task begins once for each time that it was held back, and not before what it waits for has ended."""
        id, kind = event.task_id, event.kind
        if kind in _BEGINNINGS:
            self._check_required(id)
        if kind is EventKind.STARTED:
            assert id not in self.blocked, f"{id} started while it was blocked"
        if kind is EventKind.RELEASED:
            assert id in self.releasable, f"{id} was released without having been held back"
            self.releasable.discard(id)
        if kind is EventKind.JOINED:
            assert self.blocked_on.get(id, set()) <= self.succeeded, f"{id} ended before what it blocked on"
        if kind in _HOLDING_BACK:
            self.releasable.add(id)
        if kind in _FAILURES:
            self.failed.add(id)
        if kind in _SUCCESSES or (kind in _FAILURES and id in self.passing):
            self.succeeded.add(id)
        if kind is EventKind.BLOCKED:
            self.blocked.add(id)
        elif kind is not EventKind.STEP:
            self.blocked.discard(id)

    def _check_required(self, id: str) -> None:
        required = self.required.get(id, set())
        match self.on_failure.get(id, OnFailure.CANCEL):
            case OnFailure.CANCEL:
                assert required <= self.succeeded, f"{id} before {required - self.succeeded}"
            case OnFailure.RUN:
                ended = self.succeeded | self.failed
                assert required <= ended, f"{id} before {required - ended}"
            case OnFailure.ONLY:
                assert not required or required & self.failed, f"{id} without a failure"
