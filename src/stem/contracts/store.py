"""A connected store: all its interfaces, and its maintenance."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import msgspec

from stem.contracts.broker import Broker
from stem.contracts.deadletters import DeadLetters
from stem.contracts.events import Events
from stem.contracts.history import History
from stem.contracts.limiter import Limiter
from stem.contracts.locks import Locks
from stem.contracts.results import Results
from stem.contracts.rollups import Rollups
from stem.contracts.schedules import Schedules
from stem.contracts.staging import Staging
from stem.contracts.steering.heartbeats import Heartbeats
from stem.contracts.steering.mail import Mail
from stem.contracts.steering.revokes import Revokes
from stem.contracts.steps import Steps
from stem.contracts.task_logs import TaskLogs


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a store can do."""

    is_durable: bool
    crosses_processes: bool
    crosses_machines: bool
    joins_transactions: bool
    joins_async_transactions: bool = False


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Health of a store. Each warning is a sentence about something that works but endangers a promise."""

    backend: str
    server: str
    latency_seconds: float
    warnings: list[str] = []


class Upkeep(ABC):
    """Clock, health, retention and closing of a store."""

    @abstractmethod
    def now(self) -> float:
        """The time of the store's clock, in seconds since 1970."""

    @abstractmethod
    def diagnose(self) -> Diagnosis:
        """Measure the latency and look for settings that endanger a promise."""

    @abstractmethod
    def prune(self) -> int:
        """Delete what is past its retention, and return how many entries went. 0 says that nothing is left to delete.

        That is: ended records, unique keys, events, rollups, lines of tasks, locks, limits, heartbeats, mail, revokes, and what
        dead jobs left staged. The work per call is bounded.
        """

    @abstractmethod
    def close(self) -> None:
        """Close all connections; waiting calls return. Twice is a no-op."""


@dataclass(frozen=True, slots=True)
class Store:
    """One open store, as `stem.backends.connect` returns it."""

    url: str  # without its password
    namespace: str
    capabilities: Capabilities
    broker: Broker
    deadletters: DeadLetters
    results: Results
    events: Events
    history: History
    revokes: Revokes
    locks: Locks
    limiter: Limiter
    heartbeats: Heartbeats
    mail: Mail
    staging: Staging
    rollups: Rollups
    schedules: Schedules
    steps: Steps
    task_logs: TaskLogs
    upkeep: Upkeep
