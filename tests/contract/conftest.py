"""The contract is kept by one store more: a Postgres whose tasks and events lie in several tables."""

from pathlib import Path

import pytest

from conftest import BACKENDS, url_of

_WITHOUT_TASKS = {"test_control", "test_heartbeats", "test_limiter", "test_locks", "test_mail", "test_rollups_store"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What knows neither tasks nor events is the same there."""
    items[:] = [item for item in items if not (item.path.stem in _WITHOUT_TASKS and "[below" in item.name)]


@pytest.fixture(params=(*BACKENDS, "below"))
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a real store, of each technology in turn."""
    return url_of(request.param, request, tmp_path)


@pytest.fixture(params=(*BACKENDS[1:], "below"))
def durable_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same without memory: stores that other processes can reach."""
    return url_of(request.param, request, tmp_path)
