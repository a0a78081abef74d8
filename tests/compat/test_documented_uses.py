"""Uses that Celery's documentation teaches: calling, canvas, tasks, routing, results, remote control."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stem import Worker
from stem.compat.celery import Celery, Task, chain, chord, current_task, group, signature
from stem.compat.celery.exceptions import MaxRetriesExceededError, Retry
from stem.compat.celery.result import AsyncResult

app = Celery("documented", broker="memory://documented", set_as_current=False)
app.conf.task_routes = [
    lambda name, args, kwargs, options, task=None, **kw: {"queue": "video"} if name.startswith("video.") else None,
    {"feed.*": {"queue": "feeds", "priority": 2}},
]
app.conf.task_annotations = {"documented.limited": {"rate_limit": "10/s"}}
app.conf.worker_concurrency = 4


class Connected(Task):
    """Opens what it needs once per process."""

    _connection: object | None = None

    @property
    def connection(self) -> object:
        if self._connection is None:
            self._connection = object()
        return self._connection


@app.task(name="documented.add")
def add(x: float, y: float = 0) -> float:
    return x + y


@app.task(name="documented.mul")
def mul(x: float, y: float) -> float:
    return x * y


@app.task(name="documented.xsum")
def xsum(numbers: list[float]) -> float:
    return sum(numbers)


@app.task(name="documented.limited")
def limited() -> None: ...


@app.task(name="documented.connected", base=Connected, bind=True)
def connected(self: Any) -> bool:
    return self.connection is self.connection


@app.task(name="video.encode")
def encode() -> str:
    return str(current_task.request.delivery_info["routing_key"])


@app.task(name="feed.fetch")
def fetch() -> list[Any]:
    info = current_task.request.delivery_info
    return [info["routing_key"], info["priority"]]


@app.task(name="documented.loose", typing=False)
def loose(x: int) -> int:
    return x


@app.task(name="documented.upload", bind=True, max_retries=1, default_retry_delay=0)
def upload(self: Any) -> None:
    raise self.retry()


@pytest.fixture(scope="module", autouse=True)
def worker() -> Iterator[None]:
    queues = ["celery", "video", "feeds"]
    with Worker(app.stem, in_process=True, queues=queues):
        yield
    app.close()


def value(sent: Any) -> Any:
    return sent.get(timeout=20)


def test_calling() -> None:
    assert value(add.delay(4, 4)) == 8
    assert value(add.apply_async((2, 2), countdown=0.1)) == 4
    assert value(add.apply_async((2, 2), eta=datetime.now(UTC) + timedelta(milliseconds=50))) == 4
    assert (
        value(
            add.apply_async(args=[2], kwargs={"y": 3}, retry=True, retry_policy={"max_retries": 3}, compression="zlib")
        )
        == 5
    )
    assert add.name == "documented.add" and app.tasks["documented.add"] is add


def test_signatures() -> None:
    assert value(signature("documented.add", args=(2, 2), countdown=0, app=app).apply_async()) == 4
    assert value(add.signature((2, 2), countdown=0).delay()) == 4
    assert (add.s(2, 2).args, add.s(2, y=2).kwargs, add.s(2, 2).options) == ((2, 2), {"y": 2}, {})
    assert ~add.s(2, 2) == 4
    assert value(add.s(4).clone(args=(4,)).apply_async()) == 8
    assert value(add.si(2, 2).apply_async((9, 9))) == 4


def test_chains_groups_and_chords() -> None:
    assert value(chain(add.s(4, 4) | mul.s(8) | mul.s(10))()) == 640
    assert value((add.s(4) | mul.s(8))(4)) == 64
    assert value(group(add.s(i) for i in range(4)).apply_async((10,))) == [10, 11, 12, 13]
    assert value(chord(add.s(i, i) for i in range(10))(xsum.s())) == 90
    assert value((add.s(4, 16) | group(mul.s(1), mul.s(2)) | xsum.s() | add.s(1))()) == 61
    assert value(chord([add.s(1, 1) | mul.s(3), add.s(2, 2)], xsum.s() | mul.s(2)).delay()) == 20
    assert value(chain([add.s(1, 1), add.s(1)]).delay()) == 3
    assert value(chord([], xsum.s())()) == 0
    assert value(group(add.s(i, i) for i in range(3)).skew(start=0, step=0.01)()) == [0, 2, 4]


def test_a_chord_whose_body_has_a_link_and_an_error_callback_keeps_its_value() -> None:
    body = xsum.s()
    body.link(add.s(1))
    assert value(chord([add.s(1, 1)], body.on_error(add.si(0, 0)))()) == 2


def test_tasks_with_classes_limits_and_loose_signatures() -> None:
    assert value(connected.delay()) is True
    assert app.stem.tasks["documented.limited"].definition.rate_limit is not None
    with pytest.raises(TypeError):
        add.delay(1, 2, 3)
    with pytest.raises(TypeError):
        value(loose.delay(1, 2))
    with pytest.raises(MaxRetriesExceededError):
        value(upload.delay())
    with pytest.raises(Retry):
        upload()


def test_routing_by_function_and_by_pattern() -> None:
    assert value(encode.delay()) == "video"
    assert value(fetch.delay()) == ["feeds", 2]


def test_results_by_id_and_as_tuples() -> None:
    sent = add.delay(1, 1)
    assert value(AsyncResult(sent.id, app=app)) == 2
    assert value(app.AsyncResult(sent.id)) == 2
    assert [node[1] for node in app.AsyncResult(sent.id).collect()] == [2]
    pair = (add.s(1, 1) | add.s(1)).apply_async()
    assert value(pair) == 3 and pair.as_list() == [pair.id, pair.parent.id]
    parts = group(add.s(1, 1), add.s(2, 2))()
    assert sorted(parts.iterate(timeout=20)) == [2, 4] and parts[0].get() == 2


def test_remote_control() -> None:
    control = app.control
    assert [list(each.values()) for each in control.ping()] == [[{"ok": "pong"}]]
    (name,) = control.inspect().ping()
    assert control.inspect([name]).active() == {name: []}
    assert control.inspect().scheduled() == {name: []} == control.inspect().reserved()
    assert set(control.inspect().stats()) == {name}
    waiting = add.apply_async((1, 1), countdown=60)
    control.revoke(waiting.id)
    assert waiting.id in control.inspect().revoked()[name]
    assert value_of_state(waiting) == "REVOKED"
    control.rate_limit("documented.limited", "200/m")
    assert control.purge() == 0


def value_of_state(sent: Any) -> str:
    with pytest.raises(Exception, match="revoked"):
        value(sent)
    return str(sent.state)
