"""How a worker is to work: what cannot be meant is refused in one sentence, what was left open is filled in."""

import os
from typing import Any

import pytest

from stem import ConfigError
from stem.core.settings.app import Settings
from stem.worker.settings import RENEW_AGAIN_SECONDS, WorkerSettings, check


def test_name_and_concurrency_are_filled_in() -> None:
    settings = check(WorkerSettings())
    assert settings.concurrency == len(os.sched_getaffinity(0))
    assert str(os.getpid()) in settings.name
    assert check(WorkerSettings()).name != settings.name


def test_given_settings_are_kept() -> None:
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
def test_a_wrong_value_is_refused(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=r"name|" + option):
        check(WorkerSettings(**{option: value}))


def test_a_soft_limit_stands_below_the_hard_one() -> None:
    with pytest.raises(ConfigError, match="lower it"):
        check(WorkerSettings(soft_limit=2, hard_limit=2))


def test_the_grace_outlasts_a_call_that_hangs_until_its_timeout_and_the_one_after_it() -> None:
    """A proxy accepts a renewal and never answers, though the store behind it is back."""
    timeout_seconds = Settings(broker_url="redis://h").timeout_seconds
    assert WorkerSettings().reclaim_grace_seconds(timeout_seconds) > timeout_seconds + RENEW_AGAIN_SECONDS


@pytest.mark.parametrize("timeout_seconds", [1.0, 5.0, 60.0])
@pytest.mark.parametrize("lease_seconds", [2.0, 10.0, 60.0])
def test_an_outage_in_which_a_lease_can_run_out_is_longer_than_the_grace(
    lease_seconds: float, timeout_seconds: float
) -> None:
    settings = WorkerSettings(lease_seconds=lease_seconds, reclaim_seconds=lease_seconds / 4)
    assert settings.reclaim_grace_seconds(timeout_seconds) <= lease_seconds * 0.75
