"""Canvases are read in bounded time and drawn in bounded space; steps say what they are."""

from collections.abc import Iterator
from itertools import count

import msgspec
import pytest

from stem import Stem
from stem.contracts.store import Store
from stem.core.delivery import Ending
from stem.core.heartbeat import Heartbeat
from stem.core.lifecycle import State
from stem.core.outcome import Requeue
from stem.observe import canvases as reading
from stem.observe.canvases import MOST_LINES, canvas, canvases
from stem.observe.overview import overview
from stem.observe.steps import steps
from stem.observe.task import task
from support.builders import a_push
from support.client.canvases import settle_all, submitted

KEY = "k1:hmac-sha256:" + "QUFB" * 11
_numbers = count(1)


@pytest.fixture
def app() -> Iterator[Stem]:
    with Stem(f"memory://canvases-{next(_numbers)}") as made:
        yield made


def test_a_canvas_of_many_kinds_of_tasks_is_drawn_up_to_a_number_of_lines(app: Stem) -> None:
    handle = submitted(app, *(f"step-{i}" for i in range(MOST_LINES + 50)))
    found = canvas(app, handle.id)
    assert len(found.lines) == MOST_LINES and found.line_count == MOST_LINES + 51
    assert found.open_lists == 2  # that of the chain, and that of its steps
    assert found.status.total == MOST_LINES + 50


def test_a_large_canvas_is_listed_without_counting_its_tasks(app: Stem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_COUNTED", 5)
    submitted(app, ["clean"] * 6, "report", name="large")
    submitted(app, "fetch", "report", name="small")
    small, large = canvases(app, limit=10).rows
    assert (small.name, small.total, small.done) == ("small", 2, 0)
    assert (large.name, large.total, large.done, large.state) == ("large", 7, None, State.QUEUED)


def test_a_list_that_takes_too_long_says_so_and_shows_the_rest_uncounted(app: Stem) -> None:
    for _ in range(3):
        submitted(app, "fetch", "report")
    ticks = iter([0.0, 1.0, 3.0, 3.0, 3.0])
    found = canvases(app, limit=10, clock=lambda: next(ticks))
    assert not found.is_whole
    assert [row.status is not None for row in found.rows] == [True, False, False]


def test_what_was_cancelled_is_not_on_the_critical_path(app: Stem) -> None:
    handle = submitted(app, "fetch", "report")
    settle_all(app, failing=["fetch"])
    found = canvas(app, handle.id)
    assert [(each.line.name, each.is_critical) for each in found.lines if each.is_task] == [
        ("fetch", True),
        ("report", False),
    ]
    assert found.status.state is State.FAILED and found.cause == found.status.failures[0].id


def test_callbacks_say_when_they_run(app: Stem) -> None:
    fetch, alert = app.sender("fetch", check=False), app.sender("alert", check=False)
    from stem.client.canvas.signature import Signature

    def sign(sender: object) -> Signature[object]:
        return Signature(sender, (), {}, is_immutable=True)  # type: ignore[arg-type]

    handle = app.submit(sign(fetch).link_error(sign(alert)))
    assert [(each.line.name, each.when) for each in canvas(app, handle.id).lines] == [
        ("fetch", ""),
        ("alert", "on failure"),
    ]


def test_a_blocked_task_names_what_it_waits_for(app: Stem) -> None:
    app.store.broker.push([a_push("first"), a_push("then", after=["first"])])
    found = task(app.store, "then")
    assert found is not None and found.prerequisites is not None and found.due_at is None
    assert (found.prerequisites.count, found.prerequisites.missing) == (1, 1)
    settle_all(app, failing=["demo.add"])
    found = task(app.store, "then")
    assert found is not None and found.cause == "first"


def test_an_event_that_is_not_signed_is_shown_as_refused_where_there_are_keys() -> None:
    with Stem(f"memory://canvases-{next(_numbers)}", signing_keys=KEY) as app:
        app.store.broker.push([a_push("t")])
        (delivery,) = app.store.broker.claim(["default"], limit=1, lease_seconds=60)
        until = msgspec.Raw(msgspec.json.encode(app.store.upkeep.now() + 60))
        app.store.steps.record(delivery.lease, "wait:approved", until)
        app.store.broker.settle([Ending(delivery.lease, Requeue(60.0, "waiting"), 0.1)], worker="w")
        app.store.steps.send("t", "approved", msgspec.Raw(b'{"data":1}'))
        app.store.steps.send("t", "approved#signed", msgspec.Raw(b'{"data":1,"keyId":"k1","signature":"x"}'))
        record = app.store.results.get(["t"])["t"]
        found = steps(app.store_connection, record)
        assert [(view.name, view.is_refused) for view in found.steps if view.kind == "event"] == [
            ("approved", True),
            ("approved", True),
        ]
        assert found.waits_for is not None and found.waits_for.name == "approved"


def test_a_scheduler_is_no_worker(store: Store) -> None:
    for name, extras in (("w1", {}), ("s1", {"kind": "scheduler"})):
        beat = Heartbeat(
            worker_id=name, namespace=store.namespace, host="h", pid=1, uptime_seconds=1.0, concurrency=2, in_flight=0,
            queues=[], extras=extras,
        )  # fmt: skip
        store.heartbeats.beat(beat, ttl_seconds=60)
    found = overview(store, store.revokes, seconds=3600)
    assert ([each.id for each in found.workers], [each.id for each in found.schedulers]) == (["w1"], ["s1"])
