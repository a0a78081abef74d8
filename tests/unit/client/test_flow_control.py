"""Which calls of a key run: debounced ones, singletons, and the newest where it wins."""

from typing import Any

import pytest

from stem import InvalidTask, Stem
from stem.core.lifecycle import State
from stem.testing import eager


@pytest.fixture
def app() -> Stem:
    return Stem("memory://flow")


def test_of_calls_in_quick_succession_only_the_last_one_runs(app: Stem) -> None:
    ran: list[str] = []

    @app.task(name="index", debounce=5, key="page")
    def index(page: int, text: str) -> None:
        ran.append(text)

    with eager(app) as world:
        first = index.enqueue(1, "a")
        world.clock.advance(4)
        second = index.enqueue(1, "b")
        other = index.enqueue(2, "c")
        world.clock.advance(4)
        assert (ran, first.status().state) == ([], State.CANCELLED)
        world.clock.advance(1)
        assert ran == ["b", "c"]
        assert (second.status().state, other.status().state) == (State.SUCCEEDED, State.SUCCEEDED)


def test_debounce_max_bounds_how_long_calls_can_put_off_the_run(app: Stem) -> None:
    ran: list[int] = []

    @app.task(name="index", debounce=5, debounce_max=12, key=[])
    def index(number: int) -> None:
        ran.append(number)

    with eager(app) as world:
        for number in range(6):
            index.enqueue(number)
            world.clock.advance(3)
        assert ran == [3]
        world.clock.advance(5)
        assert ran == [3, 5]


def test_a_header_can_be_the_key(app: Stem) -> None:
    ran: list[int] = []

    @app.task(name="sync", debounce="5s", key="header:tenant")
    def sync(number: int) -> None:
        ran.append(number)

    with eager(app) as world:
        for number, tenant in enumerate(["a", "b", "a"]):
            sync.options(headers={"tenant": tenant}).enqueue(number)
        world.clock.advance(5)
        assert ran == [1, 2]


def test_the_newest_call_wins_even_over_one_that_runs(app: Stem) -> None:
    @app.task(name="render", cancel_running=True, key="page")
    def render(page: int, text: str) -> str:
        return text

    first = render.enqueue(1, "a")
    (running,) = app.store.broker.claim(["default"], limit=1, lease_seconds=60)
    app.store.broker.start([running.lease], worker="w")
    second = render.enqueue(1, "b")
    assert (first.status().state, first.status().error.message) == (State.CANCELLED, "superseded")  # type: ignore[union-attr]
    assert app.store.broker.renew([running.lease], lease_seconds=60) == [running.lease]
    assert second.status().state is State.QUEUED


def test_a_singleton_has_one_place_for_each_key(app: Stem) -> None:
    @app.task(name="charge", singleton=True, key="customer")
    def charge(customer: int, amount: int) -> None: ...

    definition = charge.definition
    assert (definition.max_concurrency, definition.concurrency_per) == (1, "singleton")
    for customer, amount in ((1, 5), (1, 6), (2, 5)):
        charge.enqueue(customer, amount)
    deliveries = app.store.broker.claim(["default"], limit=3, lease_seconds=60)
    keys = [delivery.envelope.headers["singleton"] for delivery in deliveries]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"unique": 5, "debounce": 5}, "choose one"),
        ({"unique": "until_done", "cancel_running": True}, "choose one"),
        ({"debounce_max": 5}, "debounce is not"),
        ({"debounce": 5, "debounce_max": 4}, "raise it"),
        ({"key": "what"}, "without unique"),
        ({"debounce": 5, "key": [7]}, "name arguments"),
        ({"debounce": 5, "key": 7}, "name arguments"),
        ({"debounce": 5, "key": "header:"}, "name arguments"),
        ({"singleton": 1}, "use True or False"),
        ({"singleton": True, "max_concurrency": 2}, "leave out max_concurrency"),
        ({"debounce": 5, "key": "nobody"}, "has no parameter 'nobody'"),
    ],
)
def test_contradictory_options_are_refused_with_a_sentence(app: Stem, options: Any, sentence: str) -> None:
    with pytest.raises(InvalidTask, match=sentence):
        app.task(name="it", **options)(lambda what: None)
