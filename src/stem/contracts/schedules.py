"""Recurring entries, and the promise that each due instant is enqueued once."""

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any

import msgspec

from stem.core.envelope import Push


class ScheduleEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`spec` is a cron line or an interval. `version` changes with every edit, so that a firing of an old one is refused."""

    id: str
    name: str
    spec: str
    args: dict[str, Any] = {}
    queue: str = "default"
    time_zone: str = "UTC"
    jitter_seconds: float = 0.0
    is_enabled: bool = True
    version: int = 0
    last_run_at: datetime | None = None
    next_run_at: datetime | None = None


class Schedules(ABC):
    @abstractmethod
    def put(self, entry: ScheduleEntry) -> ScheduleEntry:
        """Create or replace; returns it with its new version."""

    @abstractmethod
    def get(self, entry_id: str) -> ScheduleEntry | None: ...

    @abstractmethod
    def all(self) -> list[ScheduleEntry]: ...

    @abstractmethod
    def delete(self, entry_id: str) -> bool: ...

    @abstractmethod
    def due(self, *, limit: int) -> list[ScheduleEntry]:
        """Enabled and disabled entries whose next run is not after the store's now, earliest first."""

    @abstractmethod
    def fire(self, entry: ScheduleEntry, *, instant: datetime, next_run_at: datetime, push: Push | None) -> bool:
        """Enqueue and advance in one transaction, if entry, version and instant are still as given; False if another
        scheduler was first. No push: advance only (disabled entry)."""
