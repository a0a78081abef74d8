"""The memory that supervisor and isolate share: each side sees what the other wrote, and never half of it."""

import os
import threading
import time
from collections.abc import Iterator

import pytest

from stem.worker.isolate.status_block import PROGRESS_BYTES, REVOKED, SOFT_LIMIT, StatusBlock
from support.until import until


@pytest.fixture
def cells() -> Iterator[tuple[StatusBlock, StatusBlock]]:
    ours, descriptor = StatusBlock.create(3)
    theirs = StatusBlock(descriptor, 3)
    os.close(descriptor)
    yield ours, theirs
    ours.close()
    theirs.close()


def test_a_run_is_seen_in_its_slot_alone(cells: tuple[StatusBlock, StatusBlock]) -> None:
    ours, theirs = cells
    assert [ours.running(slot) for slot in range(3)] == [0, 0, 0]
    before = time.monotonic()
    theirs.begin(1, 7)
    assert [ours.running(slot) for slot in range(3)] == [0, 7, 0]
    started_at, soft_at, hard_at = ours.times(1)
    assert before <= started_at <= time.monotonic() and (soft_at, hard_at) == (0.0, 0.0)
    assert ours.begun(1) == 7
    theirs.end(1)
    assert (ours.running(1), ours.begun(1)) == (0, 7)


def test_limits_count_from_the_start_and_end_with_the_run(cells: tuple[StatusBlock, StatusBlock]) -> None:
    ours, theirs = cells
    theirs.begin(2, 1)
    theirs.limit(2, 1.5, 4.0)
    started_at, soft_at, hard_at = ours.times(2)
    assert (soft_at - started_at, hard_at - started_at) == pytest.approx((1.5, 4.0))
    theirs.begin(2, 2)
    assert ours.times(2)[1:] == (0.0, 0.0)
    theirs.limit(2, None, 3.0)
    assert ours.times(2)[1] == 0.0


def test_progress_is_the_latest_word(cells: tuple[StatusBlock, StatusBlock]) -> None:
    ours, theirs = cells
    theirs.begin(0, 1)
    assert (ours.beats(0), ours.progress(0)) == (0, (0, b""))
    theirs.beat(0, b"first, and long")
    theirs.beat(0, b"second")
    assert (ours.beats(0), ours.progress(0)) == (4, (4, b"second"))
    theirs.beat(0, b"x" * PROGRESS_BYTES)
    assert ours.progress(0) == (6, b"x" * PROGRESS_BYTES)
    assert ours.progress(1) == (0, b"")


def test_a_run_has_not_said_what_the_one_before_it_said(cells: tuple[StatusBlock, StatusBlock]) -> None:
    ours, theirs = cells
    theirs.begin(0, 7)
    theirs.beat(0, b'{"fraction":1}')
    theirs.end(0)
    theirs.begin(0, 8)
    assert ours.beats(0) == 0  # as of a run that nobody has heard yet


def test_progress_is_never_torn(cells: tuple[StatusBlock, StatusBlock]) -> None:
    ours, theirs = cells
    words = [bytes([65 + number]) * (100 + 150 * number) for number in range(20)]
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for message in words:
                theirs.beat(0, message)

    seen: list[bytes] = []

    def is_seen_often() -> bool:
        seen.extend(found[1] for _ in range(200) if (found := ours.progress(0)) is not None)
        return len(seen) >= 2_000

    writer = threading.Thread(target=write)
    writer.start()
    try:
        until(is_seen_often, seconds=60, every=0.001)
    finally:
        stop.set()
        writer.join()
    assert set(seen) <= {b"", *words}


def test_a_word_that_is_being_written_is_left_for_later(cells: tuple[StatusBlock, StatusBlock]) -> None:
    ours, theirs = cells
    theirs.beat(0, b"whole")
    theirs._words[4] += 1  # BEATS: as if it stopped in the middle of the next
    assert ours.progress(0) is None


def test_an_interruption_is_for_one_run_only(cells: tuple[StatusBlock, StatusBlock]) -> None:
    ours, theirs = cells
    theirs.begin(0, 5)
    assert theirs.interruption(0, 5) == 0
    ours.interrupt(0, 5, SOFT_LIMIT)
    assert (theirs.interruption(0, 5), theirs.interruption(1, 5)) == (SOFT_LIMIT, 0)
    ours.interrupt(0, 5, REVOKED)
    assert theirs.interruption(0, 5) == REVOKED
    theirs.begin(0, 6)
    assert theirs.interruption(0, 6) == 0


def test_the_memory_neither_shrinks_nor_grows() -> None:
    status, descriptor = StatusBlock.create(2)
    for size in (0, 1, 1 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, size)
    assert status.running(1) == 0
    status.close()
    os.close(descriptor)


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), -1.0])
def test_a_start_that_is_no_moment_is_refused(nonsense: float) -> None:
    status, descriptor = StatusBlock.create(1)
    status.begin(0, 1)
    status._times[1] = nonsense
    with pytest.raises(ValueError, match="has written"):
        status.times(0)
    status.close()
    os.close(descriptor)
