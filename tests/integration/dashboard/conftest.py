"""An app on each store that several processes can share, and its dashboard."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import url_of
from stem import Stem
from support.web.dashboards import ServedDashboard, served


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path, namespace: str) -> Iterator[Stem]:
    with Stem(url_of(request.param, request, tmp_path), namespace=namespace) as made:
        yield made


@pytest.fixture
def board(app: Stem) -> Iterator[ServedDashboard]:
    """Without a login, as on loopback."""
    with served(app) as found:
        yield found
