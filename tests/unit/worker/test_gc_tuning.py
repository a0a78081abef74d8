"""How often the process looks for garbage is the worker's to change only while it runs."""

import gc
from collections.abc import Iterator

import pytest

from stem.worker.gc_tuning import THRESHOLD, collect_rarely


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_it_is_sought_seldom_until_the_last_worker_ends() -> None:
    first, second = collect_rarely(), collect_rarely()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (THRESHOLD, 10, 10)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("wanted", [(0, 10, 10), (50_000, 5, 5)])
def test_a_collector_that_is_off_or_rarer_stays_so(wanted: tuple[int, int, int]) -> None:
    gc.set_threshold(*wanted)
    with collect_rarely():
        assert gc.get_threshold() == wanted
    assert gc.get_threshold() == wanted


def test_a_threshold_set_meanwhile_stays() -> None:
    with collect_rarely():
        gc.set_threshold(900, 9, 9)
    assert gc.get_threshold() == (900, 9, 9)
