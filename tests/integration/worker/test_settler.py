"""An ending that no store can hold is refused by itself: the others are written, and the worker goes on."""

from collections.abc import Iterator, Sequence

import msgspec
import pytest

from stem.contracts.store import Store
from stem.core.delivery import Ending
from stem.core.lifecycle import State
from stem.core.outcome import Done, Retry, Settlement
from stem.core.record import TaskError
from stem.worker.pool.in_flight import InFlightTask
from stem.worker.services.settler import Settler
from support.builders import a_push
from support.until import until


@pytest.fixture
def settled() -> list[InFlightTask]:
    return []


@pytest.fixture
def settler(store: Store, settled: list[InFlightTask]) -> Iterator[Settler]:
    def hear(tasks: Sequence[InFlightTask]) -> None:
        settled.extend(tasks)

    settler = Settler(store.broker, "w1", hear, lambda batch, refused: None)
    settler.start()
    yield settler
    settler.stop()


@pytest.mark.parametrize("delay", [1e300, float("inf"), float("nan"), -1e300])
def test_a_delay_that_is_none_parks_its_task_and_no_other(
    store: Store, settler: Settler, settled: list[InFlightTask], delay: float
) -> None:
    store.broker.push([a_push(id) for id in ("first", "offender", "last")])
    deliveries = store.broker.claim(["default"], limit=3, lease_seconds=60.0)
    endings: dict[str, Settlement] = {
        "first": Done(msgspec.Raw(b"1")),
        "offender": Retry(delay, TaskError("ValueError", "no", retryable=True)),
        "last": Done(msgspec.Raw(b"2")),
    }
    settler.add([(InFlightTask(each, None), Ending(each.lease, endings[each.lease.id], 0.1)) for each in deliveries])
    until(lambda: len(settled) == 3, seconds=30)
    records = store.results.get(["first", "offender", "last"])
    assert (records["first"].state, records["last"].state) == (State.SUCCEEDED, State.SUCCEEDED)
    assert settler.is_alive
    letter = store.deadletters.get("offender")
    # A store that can hold it may do so; it is not due before the end of the world.
    assert letter.reason == "not-storable" if letter is not None else records["offender"].state is State.RETRIED
