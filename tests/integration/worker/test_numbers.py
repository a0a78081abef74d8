"""Somebody who can write to the store writes calls with numbers that no sender would: each is a dead letter by itself."""

import pytest
from msgspec.structs import replace

from stem import Settings, Stem, Worker
from stem.core.decisions.retry import Delays, Exponential, Fixed, RetryStrategy
from support.builders import a_push
from support.until import until


@pytest.mark.parametrize(
    "forged",
    [
        {"retry": Fixed(1e300)},
        {"retry": Exponential(1e300, 1e300, 1.0)},
        {"retry": Delays((-1e300,))},
        {"hard_limit": 1e300},
        {"max_retries": 2**62},
    ],
    ids=lambda forged: next(iter(forged)),
)
def test_a_forged_number_ends_the_call_and_nothing_else(
    durable_url: str, namespace: str, forged: dict[str, RetryStrategy | float | int]
) -> None:
    with Stem(settings=Settings(broker_url=durable_url, namespace=namespace)) as app:

        @app.task(name="fails")
        def fails() -> None:
            raise ValueError("so that the number is needed")

        @app.task(name="works")
        def works() -> int:
            return 1

        push = a_push("forged", name="fails")
        app.store.broker.push([replace(push, envelope=replace(push.envelope, **forged))])
        with Worker(app, in_process=True, name="w1"):
            letter = until(lambda: app.store.deadletters.get("forged"), seconds=60)
            assert letter.reason == "envelope-unreadable", letter
            assert works.enqueue().get(timeout=60) == 1
