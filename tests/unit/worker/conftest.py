"""Isolates for the tests of the worker's services, closed when the test ends."""

from collections.abc import Iterator

import pytest

from stem.worker.pool.isolate_state import IsolateState
from unit.worker.pool.isolate_states import ChildEnds, MakeIsolate, new_isolate


@pytest.fixture
def make_isolate() -> Iterator[MakeIsolate]:
    made: list[tuple[IsolateState, ChildEnds]] = []

    def make(
        slots: int = 1, *, is_inline: bool = False, max_tasks: int | None = None
    ) -> tuple[IsolateState, ChildEnds]:
        made.append(new_isolate(slots, is_inline, max_tasks))
        return made[-1]

    yield make
    for isolate, other in made:
        isolate.handle.close()
        other.close()
