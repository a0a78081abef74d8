"""An app with one task, on each kind of store."""

from collections.abc import Iterator

import pytest

from stem import Settings, Stem


@pytest.fixture
def app(store_url: str, namespace: str) -> Iterator[Stem]:
    with Stem(settings=Settings(broker_url=store_url, namespace=namespace, timeout_seconds=30.0)) as app:

        @app.task(name="note")
        def note(text: str = "") -> str:
            return text

        yield app
