"""How one worker is to work: checked once, then passed down."""

import re
import socket
from typing import Literal

import msgspec

from stem.core.autoscale import Autoscale
from stem.core.autoscale import check as check_autoscale
from stem.core.errors import ConfigError
from stem.core.settle import MAX_DEATHS
from stem.runtime.process import usable_cpus

# How to stop: let what runs end, tell it to stop, or cut it off.
Mode = Literal["warm", "soft", "hard"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:\-]{0,127}", re.ASCII)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`queues` empty: all that the app's tasks name. `prefetch` is the most that may be claimed and not yet begun; how
    much of it is used follows from how fast tasks end."""

    queues: tuple[str, ...] = ()
    concurrency: int = 0  # 0: one isolate a core
    prefetch: int = 1000
    name: str = ""
    async_concurrency: int = 10
    lane_concurrency: int = 8  # inline tasks (isolate=False) at a time, beside the isolates
    soft_limit: float | None = None
    hard_limit: float | None = None
    lease_seconds: float = 10.0
    heartbeat_seconds: float = 10.0
    reclaim_seconds: float = 2.5
    stall_seconds: float = 30.0
    limiter_fails_open: bool = False
    max_deaths: int = MAX_DEATHS  # isolates that a task may fell before it is a dead letter
    grace_seconds: float = 5.0  # from being told to stop to being killed
    warm_seconds: float | None = None  # how long a warm stop waits before it becomes a soft one
    max_tasks_per_isolate: int | None = None
    max_memory_per_isolate: int | None = None  # bytes, of the isolate and its children
    autoscale: Autoscale = Autoscale()
    log_tasks: bool = True  # a line per task that succeeds

    @property
    def reclaim_grace_seconds(self) -> float:
        """How long workers get to renew their leases after the store was away: two rounds of renewing, and of reclaiming."""
        return max(self.lease_seconds / 2, self.reclaim_seconds * 2)


def check(settings: WorkerSettings) -> WorkerSettings:
    """Fills in what was left open. Raises ConfigError."""
    for what, least in (
        ("concurrency", 0),
        ("prefetch", 0),
        ("async_concurrency", 1),
        ("lane_concurrency", 1),
        ("max_deaths", 1),
    ):
        value = getattr(settings, what)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 100_000:
            raise ConfigError(f"{what} is {value!r}; use a whole number from {least} to 100,000.")
    for what in ("max_tasks_per_isolate", "max_memory_per_isolate"):
        value = getattr(settings, what)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ConfigError(f"{what} is {value!r}; use a whole number above zero.")
    for what in ("lease_seconds", "heartbeat_seconds", "reclaim_seconds", "stall_seconds", "grace_seconds"):
        _seconds(what, getattr(settings, what))
    for what in ("soft_limit", "hard_limit", "warm_seconds"):
        if getattr(settings, what) is not None:
            _seconds(what, getattr(settings, what))
    if settings.soft_limit and settings.hard_limit and settings.soft_limit >= settings.hard_limit:
        raise ConfigError(
            f"The soft limit of {settings.soft_limit:g} s is not below the hard limit of {settings.hard_limit:g} s; lower it."
        )
    if settings.name and not _NAME.fullmatch(settings.name):
        raise ConfigError(
            f"Worker name {settings.name!r} is not 1 to 128 of letters, digits, '.', '_', '@', ':' and '-'."
        )
    check_autoscale(settings.autoscale)
    return msgspec.structs.replace(
        settings, concurrency=settings.concurrency or usable_cpus(), name=settings.name or _default_name()
    )


def _default_name() -> str:
    import os

    host = re.sub(r"[^A-Za-z0-9._\-]", "-", socket.gethostname()).strip("-._") or "worker"
    return f"{host[:80]}-{os.getpid()}-{os.urandom(2).hex()}"


def _seconds(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 86400 * 365:
        raise ConfigError(f"{what} is {value!r}; use a number of seconds above zero.")
