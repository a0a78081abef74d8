"""What the supervisor knows about an app that only isolates import: its settings and a few facts per task."""

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.decisions.ratelimit import Rate, default_burst
from stem.core.decisions.retry import RetryStrategy
from stem.core.settings.app import Settings

if TYPE_CHECKING:
    from stem.client.app import Stem
    from stem.client.task.definition import Definition


class RateFacts(msgspec.Struct, frozen=True):
    rate: Rate
    burst: float
    per: str | None  # the header whose values have buckets of their own


class PlacesFacts(msgspec.Struct, frozen=True):
    limit: int
    per: str | None


class TaskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`retry` is None if the strategy is a function, which exists only in isolates."""

    name: str
    aliases: tuple[str, ...] = ()
    queue: str  # as routes have it
    declared_queue: str = ""  # calls that were sent before there was a route wait there
    max_retries: int = 3
    is_async: bool
    isolate: bool
    engine: str | None = None
    at_most_once: bool = False
    retry: RetryStrategy | None
    rate: RateFacts | None
    places: PlacesFacts | None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`threads` names the threads that importing the app left running."""

    settings: Settings
    queue: str
    tasks: list[TaskFacts]
    threads: list[str] = []

    @property
    def queues(self) -> list[str]:
        """The app's own queue first, then those of its tasks, with their routes and without."""
        named = {queue for task in self.tasks for queue in (task.queue, task.declared_queue) if queue}
        return list(dict.fromkeys([self.queue, *sorted(named)]))


def manifest(app: "Stem", *, threads: list[str] | None = None) -> Manifest:
    app.load_tasks()
    return Manifest(
        settings=app.settings,
        queue=app.defaults.queue,
        tasks=[_facts(task.definition, task.is_async) for name, task in app.tasks.items() if name == task.name],
        threads=threads or [],
    )


def encode(manifest: Manifest) -> bytes:
    return msgspec.json.encode(manifest, enc_hook=str)


def decode(data: bytes) -> Manifest:
    return msgspec.json.decode(data, type=Manifest, dec_hook=_path)


def _facts(task: "Definition", is_async: bool) -> TaskFacts:
    rate, limit = task.rate_limit, task.max_concurrency
    return TaskFacts(
        name=task.name,
        aliases=task.aliases,
        queue=task.plan.queue,
        declared_queue=task.declared_queue,
        max_retries=task.plan.max_retries,
        is_async=is_async,
        isolate=task.isolate,
        engine=task.engine,
        at_most_once=task.at_most_once,
        retry=None if callable(task.retry) else task.retry,
        rate=None if rate is None else RateFacts(rate, task.rate_burst or default_burst(rate), task.rate_per),
        places=None if limit is None else PlacesFacts(limit, task.concurrency_per),
    )


def _path(kind: type, value: Any) -> PurePath:
    if kind is PurePath:
        return PurePath(value)
    raise TypeError(f"{kind} is not in a manifest")
