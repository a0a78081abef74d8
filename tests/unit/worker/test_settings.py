"""How a worker is to work: what cannot be meant is refused in one sentence, what was left open is filled in."""

import os
from typing import Any

import pytest

from stem import ConfigError
from stem.worker.settings import WorkerSettings, check


def test_what_is_left_open_is_filled_in() -> None:
    settings = check(WorkerSettings())
    assert settings.concurrency == len(os.sched_getaffinity(0))
    assert str(os.getpid()) in settings.name
    assert check(WorkerSettings()).name != settings.name


def test_what_is_given_is_kept() -> None:
    given = WorkerSettings(concurrency=3, name="a@b:c-1.2_x", soft_limit=1, hard_limit=2, prefetch=0)
    assert check(given) == given


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *((option, value) for option in ("concurrency", "prefetch") for value in (-1, 1.5, True, "2", 100_001)),
        *((option, value) for option in ("async_concurrency", "lane_concurrency") for value in (0, -1, True, None)),
        *((option, value) for option in ("lease_seconds", "heartbeat_seconds") for value in (0, -1, True, "1", None)),
        *((option, float("nan")) for option in ("reclaim_seconds", "stall_seconds", "grace_seconds", "soft_limit")),
        *((option, float("inf")) for option in ("hard_limit", "warm_seconds")),
        *(
            (option, value)
            for option in ("max_tasks_per_isolate", "max_memory_per_isolate")
            for value in (0, 1.0, True)
        ),
        *(("name", value) for value in ("-a", "a b", "ä", "x" * 129, "a\n")),
    ],
)
def test_what_cannot_be_meant_is_refused(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"name|" + option):
        check(WorkerSettings(**{option: value}))


def test_a_soft_limit_stands_below_the_hard_one() -> None:
    with pytest.raises(ConfigError, match="lower it"):
        check(WorkerSettings(soft_limit=2, hard_limit=2))
