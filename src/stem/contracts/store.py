"""One connected store: the seams it implements, and its upkeep."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import msgspec

from stem.contracts.broker import Broker
from stem.contracts.deadletters import DeadLetters
from stem.contracts.events import Events
from stem.contracts.heartbeats import Heartbeats
from stem.contracts.history import History
from stem.contracts.limiter import Limiter
from stem.contracts.locks import Locks
from stem.contracts.mail import Mail
from stem.contracts.results import Results
from stem.contracts.revokes import Revokes
from stem.contracts.rollups import Rollups
from stem.contracts.staging import Staging


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a store can do, as data."""

    is_durable: bool
    crosses_processes: bool
    crosses_machines: bool
    joins_transactions: bool
    joins_async_transactions: bool = False


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the store says of itself. Warnings are sentences: something works, but endangers a promise."""

    backend: str
    server: str
    latency_seconds: float
    warnings: list[str] = []


class Upkeep(ABC):
    @abstractmethod
    def now(self) -> float:
        """The store's clock, in seconds since 1970."""

    @abstractmethod
    def diagnose(self) -> Diagnosis: ...

    @abstractmethod
    def prune(self) -> int:
        """Drop what retention has outlived: ended records and their unique keys, events, rollups, locks, limits, heartbeats,
        mail, revokes, and what dead jobs left staged. Bounded work a call; returns how many entries went. 0 says that nothing
        is left to drop."""

    @abstractmethod
    def close(self) -> None:
        """Release connections; waiting calls return. Twice is a no-op."""


@dataclass(frozen=True, slots=True)
class Store:
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
    upkeep: Upkeep
