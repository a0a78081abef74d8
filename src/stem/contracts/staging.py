"""Staging: collect many pushes unseen, then make them tasks all at once. For jobs whose parts may fail and be repeated."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, overload

import msgspec

from stem.core import envelope as envelopes
from stem.core.envelope import Push
from stem.core.errors import UsageError

LEFTOVER_SECONDS = 86400.0  # after this, a job is taken for dead and what it staged is deleted
MAX_NAME = 200
Column = Sequence[float | None] | None  # None: null in every row
# What calls can share: name, queue, priority, then the optional columns in their order
Kind = tuple[str, str, int, float | None, float | None, float | None, float | None, float | None, str | None]
FRONT = '{"id":"'  # of every body


class UniformBodies(Sequence[str]):
    """Bodies that differ in id and arguments only: each is FRONT, its id, `between`, its arguments, `behind`.

    The ids need no escaping in JSON.
    """

    __slots__ = ("args", "behind", "between", "ids")

    def __init__(self, ids: Sequence[str], between: str, args: Sequence[str], behind: str) -> None:
        self.ids = ids
        self.between = between
        self.args = args
        self.behind = behind

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[str]:
        between, behind = self.between, self.behind
        return (f"{FRONT}{id}{between}{args}{behind}" for id, args in zip(self.ids, self.args, strict=True))

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return list(UniformBodies(self.ids[place], self.between, self.args[place], self.behind))
        return f"{FRONT}{self.ids[place]}{self.between}{self.args[place]}{self.behind}"


class Calls(msgspec.Struct, frozen=True, kw_only=True):
    """Pushes by column and already encoded, because an object per push would be the slowest part of a large job.

    All columns have the same length. `bodies` are envelopes as `core.envelope.encode` writes them, as text; the other columns
    repeat what stores need to know. `metas` are JSON objects. Delays and lifetimes count from the promotion.
    """

    ids: Sequence[str]
    names: Sequence[str]
    queues: Sequence[str]
    priorities: Sequence[int]
    bodies: Sequence[str]
    delays_seconds: Column = None
    dues_at: Column = None
    lifetimes_seconds: Column = None
    expiries_at: Column = None
    visibilities_seconds: Column = None
    metas: Sequence[str | None] | None = None

    def kinds(self) -> Iterator[Kind]:
        """The kind of each push."""
        optional: list[Any] = [repeat(None) if each is None else each for each in self._optional()]
        return zip(self.names, self.queues, self.priorities, *optional, strict=False)

    def one_kind(self) -> Kind | None:
        """The kind that all pushes share; None if they differ."""
        columns = (self.names, self.queues, self.priorities, *self._optional())
        if all(each is None or each.count(each[0]) == len(each) for each in columns):
            return next(self.kinds())
        return None

    def _optional(self) -> tuple[Sequence[object] | None, ...]:
        moments = (self.delays_seconds, self.dues_at, self.lifetimes_seconds, self.expiries_at)
        return (*moments, self.visibilities_seconds, self.metas)


class Part(msgspec.Struct, frozen=True):
    """One attempt at a part of a job, under a name that no other attempt has, and how many pushes it staged."""

    name: str
    rows: int


class Promotion(msgspec.Struct, frozen=True):
    """How many pushes became tasks, and how many ids were known already."""

    created: int
    known: int


class Staging(ABC):
    """The caller names the job; many processes may stage parts of it at once. Names have 1 to 200 characters.

    Staged pushes cannot be claimed, read, counted or followed before they are promoted. `Upkeep.prune` deletes what nobody
    promotes or discards within a day.
    """

    def stage(self, job: str, part: str, calls: Calls) -> None:
        """Append these pushes to the part: all or none. Raises UsageError."""
        _check_names(job, part)
        if calls.ids:
            self._stage(job, part, calls)

    def promote(self, job: str, parts: Sequence[Part], *, pushes: Sequence[Push] = ()) -> Promotion:
        """Make the pushes of exactly these parts tasks, in one transaction: readers see none of them or all.

        Each push does what `Broker.push` does: state `queued`, event `enqueued`, a known id is left alone, waiters are woken.
        Pushes of one part keep their order. What else the job has staged is deleted. `pushes` are pushed last, in the same
        transaction, and may name staged tasks as prerequisites; they do not count in the answer.

        Promoting a job again adds nothing, whatever the parts, and answers as the first time. That is remembered as long as
        results are kept. Raises StoreRefused, with nothing promoted, if a part is not complete.
        """
        _check_names(job, *(part.name for part in parts))
        return self._promote(job, parts, pushes)

    def discard(self, job: str) -> None:
        """Delete what the job has staged. Twice is a no-op; what was promoted stays."""
        _check_names(job)
        self._discard(job)

    @abstractmethod
    def promoted(self, job: str) -> Promotion | None:
        """The answer of the job's promotion, if there was one and it is still remembered."""

    @abstractmethod
    def _stage(self, job: str, part: str, calls: Calls) -> None: ...

    @abstractmethod
    def _promote(self, job: str, parts: Sequence[Part], pushes: Sequence[Push]) -> Promotion: ...

    @abstractmethod
    def _discard(self, job: str) -> None: ...


def calls_of(pushes: Sequence[Push]) -> Calls:
    """The pushes as columns. Raises UsageError for a unique key, whose holder would be known only at the promotion, and for
    prerequisites."""
    if any(push.unique is not None for push in pushes):
        raise UsageError("A unique call cannot be staged; give it an id of its own, or enqueue it directly.")
    if any(push.envelope.after or push.envelope.is_join or push.into for push in pushes):
        raise UsageError("A call that waits for others cannot be staged; push it with the promotion.")
    sent = [push.envelope for push in pushes]
    return Calls(
        ids=[envelope.id for envelope in sent],
        names=[envelope.name for envelope in sent],
        queues=[envelope.queue for envelope in sent],
        priorities=[envelope.priority for envelope in sent],
        bodies=[envelopes.encode(envelope).decode() for envelope in sent],
        delays_seconds=[push.delay_seconds for push in pushes],
        dues_at=[None if e.not_before is None else e.not_before.timestamp() for e in sent],
        lifetimes_seconds=[push.expires_seconds for push in pushes],
        expiries_at=[None if e.expires_at is None else e.expires_at.timestamp() for e in sent],
        visibilities_seconds=[e.visibility_timeout for e in sent],
        metas=[msgspec.json.encode(e.meta).decode() if e.meta else None for e in sent],
    )


def incomplete(job: str, part: Part, found: int) -> str:
    """The message for a part that is not complete."""
    return (
        f"Of part {part.name!r} of job {job!r} the store holds {found:,} of {part.rows:,} pushes; nothing was promoted, "
        "run the job again under another id."
    )


def _check_names(*names: str) -> None:
    for name in names:
        if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or "\x00" in name or not name.isprintable():
            raise UsageError(f"{name!r} cannot name a job or a part of one; use 1 to {MAX_NAME} printable characters.")
