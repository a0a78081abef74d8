"""Tasks to compose, in eager mode."""

from collections.abc import Iterator

import pytest

from support.client.composable import Kit, composing


@pytest.fixture
def kit() -> Iterator[Kit]:
    with composing() as made:
        yield made
