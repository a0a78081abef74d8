"""An app on a memory store of its own for every test."""

from collections.abc import Iterator
from itertools import count

import pytest

from stem import Stem

_numbers = count(1)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stem]:
    for name in ("STEM_BROKER_URL", "STEM_RESULT_BACKEND_URL", "STEM_NAMESPACE", "STEM_SIGNING_KEYS"):
        monkeypatch.delenv(name, raising=False)
    with Stem(f"memory://unit-{next(_numbers)}") as opened:
        yield opened
