"""Which tasks must not run: the worker's own copy of the revokes, so that asking costs nothing."""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from math import inf
from threading import Lock

from stem.contracts.revokes import Revokes
from stem.control.sealing import Trust
from stem.core.pause import is_pause
from stem.core.revoke import RevokeRecord
from stem.runtime.clock import Clock
from stem.runtime.keys import Keyring

_PAGE = 10_000
VERIFY_AT_ONCE = 500  # marks; with HMAC that takes some 6 ms, with Ed25519 some 70
MOST_PAST = 100_000  # stamps of marks that have expired: an older one must not be put back in their place
_NO_KEYS = Trust(Keyring({}), "")


class RevokedTasks:
    """Any thread may ask, without a lock; those that change it take turns.

    Of a mark only id and expiry are kept, for there may be millions; who must know more asks the store. Versions need not
    be: the store is followed in their order, so one number says of every mark whether it is known.

    Where keys are set a mark counts once its signature is verified. What is there at the start is verified when its task is
    met, or five hundred marks at a time while the store is followed; what comes later, when it is read. A mark that counts
    is given up only for a newer signed one, or with the store it came from.
    """

    def __init__(
        self, revokes: Revokes, now: Callable[[], float], *, trust: Trust = _NO_KEYS, clock: Clock = time.monotonic
    ) -> None:
        self._revokes = revokes
        self._now = now  # the store's, by which marks expire
        self._trust = trust
        self._clock = clock
        self._turn = Lock()
        self._marks: dict[str, float] = {}  # when each expires, in the store's time
        self._unverified: dict[str, float] = {}  # the same of marks that nobody has verified yet
        self._stamps: dict[str, int] = {}  # of verified marks
        self.ignored = 0  # marks that were not signed as they must be, or older than what is known
        self._offset = 0.0  # between the store's clock and ours
        self._seen = 0  # all marks up to this version are known
        self._ahead: dict[str, int] = {}  # versions past it, told of by control messages
        self._anchor: RevokeRecord | None = None  # the last mark that was read

    def __len__(self) -> int:
        return len(self._marks) + len(self._unverified)

    def is_revoked(self, task_id: str) -> bool:
        expiry = self._marks.get(task_id)
        return expiry is not None and expiry > self._clock() + self._offset

    def is_unverified(self, task_id: str) -> bool:
        return task_id in self._unverified

    def ids(self, limit: int) -> list[str]:
        """Of tasks that are revoked now, as many as that at most, the newest first."""
        known = list(self._marks)  # at once, so that no lock is needed that may be held while a store is read
        found = (task_id for task_id in reversed(known) if self.is_revoked(task_id) and not is_pause(task_id))
        return list(islice(found, limit))

    def hydrate(self) -> int:
        """Read all that the store has; what was known before counts until then. Returns how many marks there are."""
        with self._turn:
            self._read_anew()
            self._verify_some()
        return len(self)

    def verify(self, task_ids: Iterable[str]) -> None:
        """Look at what is not verified yet of these tasks' marks. Raises what the store raises."""
        if not self._unverified:
            return
        unknown = [task_id for task_id in task_ids if task_id in self._unverified]
        if unknown:
            with self._turn:
                self._verify(unknown)

    def refresh(self) -> int:
        """Learn what the store has since; all anew if it is not the one it was. Returns how many marks were read."""
        with self._turn:
            version = self._revokes.version()
            if version < self._seen or not self._anchor_holds():
                self._read_anew()
                self._verify_some()
                return len(self)
            self._measure()
            return (self._read_on() if version > self._seen else 0) + self._verify_some()

    def apply(self, records: Iterable[RevokeRecord]) -> list[RevokeRecord]:
        """Take over what a control message says; returns what was news. Stale versions change nothing."""
        with self._turn:
            fresh = []
            for record in records:  # one by one: one message may hold two marks for a task, the later one first
                if record.version > max(self._seen, self._ahead.get(record.task_id, 0)):
                    self._ahead[record.task_id] = record.version
                    self._marks[record.task_id] = _expiry(record)
                    fresh.append(record)
            return fresh

    def prune(self) -> int:
        """Forget what has expired; returns how many."""
        with self._turn:
            now, count = self._clock() + self._offset, 0
            for marks in (self._marks, self._unverified):
                expired = [task_id for task_id, expiry in marks.items() if expiry <= now]
                count += len(expired)
                for task_id in expired:
                    del marks[task_id]
            if len(self._stamps) > len(self._marks) + MOST_PAST:
                self._stamps = {id: stamp for id, stamp in self._stamps.items() if id in self._marks}
            return count

    def _read_anew(self) -> None:
        """Into a new table, so that whoever asks meanwhile sees the old one or the new one; the old one stays if the store
        fails on the way."""
        self._measure()
        seen = self._revokes.version()  # before reading: what is written meanwhile is read once more, not missed
        marks: dict[str, float] = {}
        for page in self._revokes.expiries(page=_PAGE):
            marks.update(page)
        anchor = next(iter(self._revokes.since(seen - 1, limit=1)), None)
        if self._trust:
            self._unverified = {id: expiry for id, expiry in marks.items() if id not in self._marks}
            marks = {id: expiry for id, expiry in self._marks.items() if id in marks}
        self._marks, self._seen, self._anchor, self._ahead = marks, seen, anchor, {}

    def _read_on(self) -> int:
        count = 0
        for page in self._revokes.pages(self._seen, _PAGE):
            count += self._take(page)
            self._anchor = page[-1]
            self._seen = self._anchor.version
        self._ahead = {id: version for id, version in self._ahead.items() if version > self._seen}
        return count

    def _take(self, records: Sequence[RevokeRecord]) -> int:
        """Those that count; returns how many they are."""
        if not self._trust:
            self._marks.update({record.task_id: _expiry(record) for record in records})
            return len(records)
        taken = 0
        for record in records:
            seal = self._trust.seal_of(record)
            if seal is None or seal.stamp < self._stamps.get(record.task_id, 0):
                self.ignored += 1
                continue
            self._marks[record.task_id], self._stamps[record.task_id] = seal.expires_at, seal.stamp
            self._unverified.pop(record.task_id, None)
            taken += 1
        return taken

    def _verify_some(self) -> int:
        return self._verify(list(islice(self._unverified, VERIFY_AT_ONCE))) if self._unverified else 0

    def _verify(self, task_ids: Sequence[str]) -> int:
        taken = self._take(list(self._revokes.get(task_ids).values()))
        for task_id in task_ids:
            self._unverified.pop(task_id, None)
        return taken

    def _anchor_holds(self) -> bool:
        """The last mark read must still be there, or a later one for the same task, or have expired: else the store was
        restored or replaced, and has grown past what was seen of it."""
        anchor = self._anchor
        if anchor is None or _expiry(anchor) <= self._clock() + self._offset:
            return True
        found = self._revokes.get([anchor.task_id]).get(anchor.task_id)
        return found is not None and (found == anchor or found.version > anchor.version)

    def _measure(self) -> None:
        self._offset = self._now() - self._clock()


def _expiry(record: RevokeRecord) -> float:
    return inf if record.expires_at is None else record.expires_at.timestamp()
