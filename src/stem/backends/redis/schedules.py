"""Keep schedules on Redis: a hash of entries, and a sorted set of their due times."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from stem.backends.redis.codec import script_input, values
from stem.backends.redis.codec.batch_needs import needs
from stem.backends.redis.codec.script_reply import answered
from stem.backends.redis.codec.stored_schedule import scheduled, scheduled_or_none
from stem.backends.redis.namespace import POLL_SECONDS, RedisNamespace, pack
from stem.contracts.schedules import Scheduled, ScheduleEntry, Schedules, ScheduleState, event_of, versioned
from stem.core.envelope import Envelope, Push

STRETCH = 1000  # entries per script call
KEY = "schedules"  # of the hash, and the channel that tells of changes


class RedisSchedules(Schedules):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace

    def get(self, entry_id: str) -> Scheduled | None:
        stored = self._stored(entry_id)
        return None if stored is None else scheduled(entry_id, stored)

    def all(self) -> list[Scheduled]:
        return [found for _, found in self._read_all() if found is not None]

    def broken(self) -> list[str]:
        return [entry_id for entry_id, found in self._read_all() if found is None]

    def write(
        self, entry: ScheduleEntry, state: ScheduleState, *, revision: int | None, pushes: Sequence[Push] = ()
    ) -> Scheduled | None:
        stored = self._stored(entry.id)
        old = None if stored is None else scheduled_or_none(entry.id, stored)
        if not _is_expected(stored, old, revision):
            return None
        new = versioned(entry, None if old is None else old.entry)
        given = (
            new.id,
            stored is None,
            values.at_or_false(state.due_at),
            values.json(new),
            values.json(state),
            [push.envelope.id for push in pushes],
            *needs(pushes),
            [_event(entry, push.envelope) for push in pushes],
        )
        rows = pack([script_input.pushed(push) for push in pushes])
        # The script writes only if the entry is still what was read here.
        reply = self._namespace.run("schedule_write", given, stored or b"", rows)
        written = reply if isinstance(reply, int) else int(answered(reply))
        return Scheduled(new, state, written) if written else None

    def delete(self, entry_id: str) -> bool:
        if self._namespace.run("schedule_delete", {}, entry_id.encode()):
            return True
        unreadable = (name for name in self._raw() if _shown(name) == entry_id)
        return any(self._namespace.run("schedule_delete", {}, name) for name in unreadable)

    def due(self, *, limit: int) -> list[Scheduled]:
        found: dict[str, Scheduled] = {}  # by id: what moves between two stretches may come twice
        skip = 0
        while (wanted := min(limit - len(found), STRETCH)) > 0:
            _, stretch = self._by_due_time(skip, wanted, is_due=True)
            found |= {each.entry.id: each for _, each in stretch if each is not None}
            skip += len(stretch)
            if len(stretch) < wanted:
                break
        return list(found.values())

    def next_due_at(self) -> datetime | None:
        _, _, first = self._first()
        return None if first is None else first.state.due_at

    def wait(self, *, timeout_seconds: float) -> bool:
        before: int | None = None
        pause = POLL_SECONDS

        def look(left: float) -> bool:
            nonlocal before, pause
            change, due_in, first = self._first(within=left)
            is_changed = before not in (None, change)
            before = change
            # Replies are whole microseconds: look a little too late rather than too early.
            pause = POLL_SECONDS if first is None else due_in / 1_000_000 + 0.0005
            return is_changed or (first is not None and due_in == 0)

        found = self._namespace.wait([KEY], look, timeout_seconds, pause=lambda: pause, on_news=True)
        return bool(found)

    def _stored(self, entry_id: str) -> bytes | None:
        found: bytes | None = self._namespace.client.call("HGET", self._namespace.key(KEY), entry_id)
        return found

    def _read_all(self) -> Iterator[tuple[str, Scheduled | None]]:
        """All entries by id; None for one that cannot be read."""
        stored = {_shown(name): value for name, value in self._raw().items()}
        return ((entry_id, scheduled_or_none(entry_id, stored[entry_id])) for entry_id in sorted(stored))

    def _raw(self) -> dict[bytes, bytes]:
        flat: list[bytes] = self._namespace.client.call("HGETALL", self._namespace.key(KEY))
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def _first(self, *, within: float | None = None) -> tuple[int, int, Scheduled | None]:
        """The number of the last change, and the entry that is due first, with the microseconds until then.

        Those that cannot be read are passed over: one of them would be due for ever, and no wait would sleep.
        """
        skip, wanted = 0, 1
        while True:
            change, stretch = self._by_due_time(skip, wanted, within=within)
            for due_in, found in stretch:
                if found is not None:
                    return change, due_in, found
            if len(stretch) < wanted:
                return change, 0, None
            skip, wanted = skip + wanted, STRETCH

    def _by_due_time(
        self, skip: int, limit: int, *, is_due: bool = False, within: float | None = None
    ) -> tuple[int, list[tuple[int, Scheduled | None]]]:
        """The number of the last change, and a stretch of the entries by due time, with the microseconds until then."""
        given = {"skip": skip, "limit": limit, "is_due": is_due}
        change, *rows = self._namespace.run("schedule_due", given, within=within)
        return int(change), [(int(due_in), scheduled_or_none(_shown(name), stored)) for name, due_in, stored in rows]


def _shown(raw: bytes) -> str:
    """The id; a hand may have written one that is not UTF-8."""
    return raw.decode(errors="backslashreplace")


def _event(entry: ScheduleEntry, call: Envelope) -> tuple[str, str, str]:
    """The `scheduled` event of a task, if it is created."""
    return call.name, call.queue, values.json(event_of(entry, call))


def _is_expected(stored: bytes | None, old: Scheduled | None, revision: int | None) -> bool:
    """Whether the entry is as the caller of `write` has read it."""
    if revision is None:
        return stored is not None and old is None
    if revision == 0:
        return stored is None
    return old is not None and old.revision == revision
