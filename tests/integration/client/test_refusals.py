"""Bad input is refused with a sentence, and nothing is written, on every store."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from stem import InvalidArguments, InvalidTask, Stem, StemError, UnknownTask
from stem.core.record import TaskFilter


@pytest.fixture
def app(store_url: str, namespace: str) -> Iterator[Stem]:
    with Stem(store_url, namespace=namespace, max_args_bytes=1000) as opened:
        opened.task(name="work")(work)
        yield opened


def work(number: int, what: Any = None) -> None: ...


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


CALLS: dict[str, tuple[type[StemError], str, dict[str, Any], dict[str, Any]]] = {
    "unserialisable": (InvalidArguments, "work", {"number": 1, "what": object()}, {}),
    "oversize": (InvalidArguments, "work", {"number": 1, "what": "x" * 1000}, {}),
    "wrong name": (InvalidArguments, "work", {"number": 1, "who": 1}, {}),
    "missing": (InvalidArguments, "work", {}, {}),
    "wrong type": (InvalidArguments, "work", {"number": "1"}, {}),
    "NUL": (InvalidArguments, "work", {"number": 1, "what": "a\x00b"}, {}),
    "NUL in a key": (InvalidArguments, "work", {"number": 1, "what": {"a\x00": 1}}, {}),
    "10,000 deep": (InvalidArguments, "work", {"number": 1, "what": nested(10_000)}, {}),
    "not a number": (InvalidArguments, "work", {"number": 1, "what": float("nan")}, {}),
    "half a character": (InvalidArguments, "work", {"number": 1, "what": "\ud800"}, {}),
    "unknown task": (UnknownTask, "wrok", {"number": 1}, {}),
    "priority": (InvalidTask, "work", {"number": 1}, {"priority": 12}),
    "negative delay": (InvalidTask, "work", {"number": 1}, {"delay": -1}),
    "endless delay": (InvalidTask, "work", {"number": 1}, {"delay": float("inf")}),
    "no time zone": (InvalidTask, "work", {"number": 1}, {"not_before": datetime(2030, 1, 1)}),
    "reserved header": (InvalidTask, "work", {"number": 1}, {"headers": {"stem-signature": "x"}}),
    "id with a space": (InvalidTask, "work", {"number": 1}, {"id": "a b"}),
    "id with a NUL": (InvalidTask, "work", {"number": 1}, {"id": "a\x00"}),
    "id with a brace": (InvalidTask, "work", {"number": 1}, {"id": "{a}"}),
    "id with a quote": (InvalidTask, "work", {"number": 1}, {"id": "a';--"}),
    "long id": (InvalidTask, "work", {"number": 1}, {"id": "a" * 129}),
    "queue": (InvalidTask, "work", {"number": 1}, {"queue": "a b"}),
    "meta": (InvalidTask, "work", {"number": 1}, {"meta": {"a": "\x00"}}),
}


def test_bad_input_is_refused_and_nothing_is_written(app: Stem) -> None:
    for what, (error, name, arguments, options) in CALLS.items():
        with pytest.raises(error) as caught:
            app.enqueue(name, args=arguments, **options)
        assert "\n" not in str(caught.value), what
        with pytest.raises(error):
            app.tasks["work"].enqueue_many([{"number": 1}, bulk_item(app, name, arguments, options)])
    assert app.store.broker.depth() == {}
    assert app.store.results.page(TaskFilter(), limit=10).items == []
    assert app.store.events.read(None, limit=10) == []


def bulk_item(app: Stem, name: str, arguments: dict[str, Any], options: dict[str, Any]) -> Any:
    """The same bad call as an item of a bulk; by name there is none, so that one is refused by name again."""
    if name not in app.tasks:
        app.enqueue(name)
    if not options:
        return arguments
    return app.tasks[name].options(**options).item(**arguments)
