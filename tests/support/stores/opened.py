"""A store that is closed when the test is over."""

from collections.abc import Iterator

from stem.backends import connect
from stem.contracts.store import Store
from stem.core.settings.app import Settings


def a_store(url: str, namespace: str) -> Iterator[Store]:
    """For a fixture."""
    opened = connect(url, Settings(namespace=namespace, timeout_seconds=30.0))
    yield opened
    opened.upkeep.close()
