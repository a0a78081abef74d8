"""Recurring schedules. Each due instant is enqueued once, however many schedulers run."""

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any

import msgspec

from stem.core.envelope import Push


class ScheduleEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`spec` is a cron line or an interval. `version` changes with every edit, so that firing an old version is refused."""

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
    """The schedule entries of a namespace."""

    @abstractmethod
    def put(self, entry: ScheduleEntry) -> ScheduleEntry:
        """Create or replace an entry, and return it with its new version."""

    @abstractmethod
    def get(self, entry_id: str) -> ScheduleEntry | None: ...

    @abstractmethod
    def all(self) -> list[ScheduleEntry]: ...

    @abstractmethod
    def delete(self, entry_id: str) -> bool: ...

    @abstractmethod
    def due(self, *, limit: int) -> list[ScheduleEntry]:
        """Entries whose next run is due, enabled or not, earliest first."""

    @abstractmethod
    def fire(self, entry: ScheduleEntry, *, instant: datetime, next_run_at: datetime, push: Push | None) -> bool:
        """Enqueue the push and advance the entry in one transaction; False if another scheduler was first.

        Nothing happens if the entry, its version or its instant has changed. Without a push (a disabled entry) it only advances.
        """
