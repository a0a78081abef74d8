"""The states, the arrows between them, and what the log calls them."""

import msgspec
import pytest

from stem.core.event import Event, event_data, event_kinds
from stem.core.lifecycle import ARROWS, NOTED_KINDS, TERMINAL, WAITING, WORKER_KINDS, EventKind, State, waiting_state
from stem.core.outcome import Block, Cancelled, Dead, Done, Requeue, Retry, Settlement
from stem.core.record import TaskError, moment
from support.stores.lifecycle_check import walk

ERROR = TaskError("E", "m" * 600, "long stack", retryable=True)


def test_every_event_of_a_task_has_its_arrow_and_no_noted_event() -> None:
    assert set(ARROWS) == set(EventKind) - NOTED_KINDS


def test_the_kinds_of_a_worker_say_so() -> None:
    assert {kind for kind in EventKind if kind.startswith("worker-")} == WORKER_KINDS


def test_waiting_running_and_ended_share_nothing_and_leave_nothing_out() -> None:
    parts = [WAITING, frozenset({State.RUNNING}), TERMINAL]
    assert sum(len(part) for part in parts) == len(State)
    assert frozenset().union(*parts) == set(State)


def test_every_state_can_be_reached_and_only_a_replay_or_a_release_leaves_an_end() -> None:
    assert frozenset().union(*(targets for _, targets in ARROWS.values())) == set(State)
    leaving = {
        kind: sources & TERMINAL
        for kind, (sources, targets) in ARROWS.items()
        if any(source not in targets for source in sources & TERMINAL)
    }
    assert leaving == {
        EventKind.REPLAYED: {State.FAILED},
        EventKind.RELEASED: {State.CANCELLED},  # these two revive what a failed prerequisite had cancelled
        EventKind.JOINED: {State.CANCELLED},
    }


def test_a_first_attempt_waits_queued_and_a_later_one_retried() -> None:
    assert [waiting_state(n) for n in range(3)] == [State.QUEUED, State.RETRIED, State.RETRIED]


def an_event(kind: EventKind, attempt: int = 0) -> Event:
    return Event(
        offset="1", kind=kind, at=moment(1), task_id="a", name="n", queue="q", attempt=attempt, worker=None,
        enqueued_at=moment(1), started_at=None, data={},
    )  # fmt: skip


def test_a_legal_life_is_walked_to_its_end() -> None:
    life = ["enqueued", "throttled", "started", "progress", "heartbeat", "retried"]
    assert walk(an_event(EventKind(kind)) for kind in life) is State.RETRIED
    life += ["requeued", "started", "failed", "dead-lettered", "replayed", "started", "succeeded"]
    assert walk(an_event(EventKind(kind), attempt=n > 5) for n, kind in enumerate(life)) is State.SUCCEEDED


@pytest.mark.parametrize(
    ("life", "end"),
    [
        (["blocked", "released", "started", "step", "succeeded"], State.SUCCEEDED),
        (["blocked", "revoked", "released", "started", "step", "requeued"], State.QUEUED),
        (["blocked", "joined"], State.SUCCEEDED),
        (["joined"], State.SUCCEEDED),
        (["blocked", "revoked", "joined"], State.SUCCEEDED),
        (["started", "blocked", "joined"], State.SUCCEEDED),
        (["started", "blocked", "revoked"], State.CANCELLED),
    ],
)
def test_a_task_that_waits_for_others_lives_legally(life: list[str], end: State) -> None:
    assert walk(an_event(EventKind(kind)) for kind in ["enqueued", *life]) is end


@pytest.mark.parametrize(
    "life",
    [
        ["started"],
        ["enqueued", "enqueued"],
        ["enqueued", "succeeded"],
        ["enqueued", "started", "started"],
        ["enqueued", "started", "succeeded", "succeeded"],
        ["enqueued", "started", "succeeded", "replayed"],
        ["enqueued", "revoked", "started"],
        ["enqueued", "started", "expired"],
        ["enqueued", "started", "throttled"],
        ["enqueued", "retried"],
        ["enqueued", "started", "released"],
        ["enqueued", "started", "joined"],
        ["enqueued", "blocked", "succeeded"],
        ["enqueued", "started", "failed", "released"],
        ["enqueued", "started", "succeeded", "step"],
    ],
)
def test_an_illegal_life_is_told(life: list[str]) -> None:
    with pytest.raises(AssertionError, match="came from"):
        walk(an_event(EventKind(kind)) for kind in life)


@pytest.mark.parametrize(
    ("settlement", "kinds", "data"),
    [
        (Done(msgspec.Raw(b'"secret"')), ["succeeded"], {}),
        (
            Retry(2.0, ERROR),
            ["retried"],
            {"delaySeconds": 2.0, "error": {"type": "E", "message": "m" * 500, "retryable": True}},
        ),
        (
            Dead("why", ERROR, {"note": 1}),
            ["failed", "dead-lettered"],
            {"reason": "why", "error": {"type": "E", "message": "m" * 500, "retryable": True}},
        ),
        (Requeue(1.0, "why"), ["requeued"], {"delaySeconds": 1.0, "reason": "why"}),
        (Requeue(1.0, "why", died=True), ["requeued"], {"delaySeconds": 1.0, "reason": "why", "died": True}),
        (Requeue(1.0, "10/min", throttled=True), ["throttled"], {"delaySeconds": 1.0, "reason": "10/min"}),
        (Requeue(1.0, "why", event="paid"), ["requeued"], {"delaySeconds": 1.0, "reason": "why"}),
        (Block(("a", "b")), ["blocked"], {"missing": 2}),
        (Cancelled("why"), ["revoked"], {"reason": "why"}),
        (Cancelled("why", passes=True), ["revoked"], {"reason": "why"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_settlement_is_logged_without_its_payload(settlement: Settlement, kinds: list[str], data: object) -> None:
    assert list(event_kinds(settlement)) == kinds
    assert event_data(settlement) == data
