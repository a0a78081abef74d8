"""Which tasks must not run: the worker's copy of the revokes, so that a lookup needs no store."""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from math import inf
from threading import Lock

from stem.contracts.steering.revokes import Revokes
from stem.control.sealing import Trust
from stem.core.pause import is_pause
from stem.core.revoke import RevokeRecord, read_seal
from stem.runtime.clock import Clock
from stem.runtime.keys import Keyring

_PAGE = 10_000
VERIFY_AT_ONCE = 500  # revokes; with HMAC that takes some 6 ms, with Ed25519 some 70
MOST_PAST = 100_000  # stamps of revokes that have expired: an older one must not be put back in their place
_NO_KEYS = Trust(Keyring({}), "")


class RevokeCache:
    """Any thread may read without a lock; changes take a lock.

    Only id and expiry of a revoke are kept, because there may be millions; the store has the rest. Versions are not kept: the
    store is read in their order, so one number says whether a revoke is known.

    Where keys are set, a revoke counts once its signature is verified. Those present at the start are verified when their
    task is claimed, or 500 at a time at every refresh; later ones when they are read. A revoke that counts
    is given up only for a newer signed one, or with the store it came from.
    """

    def __init__(
        self, revokes: Revokes, now: Callable[[], float], *, trust: Trust = _NO_KEYS, clock: Clock = time.monotonic
    ) -> None:
        self._revokes = revokes
        self._now = now  # the store's, by which revokes expire
        self._trust = trust
        self._clock = clock
        self._turn = Lock()
        self._expiries: dict[str, float] = {}  # when each expires, in the store's time
        self._unverified: dict[str, float] = {}  # the same of revokes not yet verified
        self._stamps: dict[str, int] = {}  # of verified revokes
        self.ignored = 0  # revokes that were not signed as they must be, or older than what is known
        self._offset = 0.0  # between the store's clock and ours
        self._seen = 0  # all revokes up to this version are known
        self._ahead: dict[str, int] = {}  # versions past it, known from control messages
        self._anchor: RevokeRecord | None = None  # the last revoke that was read

    def __len__(self) -> int:
        return len(self._expiries) + len(self._unverified)

    def is_revoked(self, task_id: str) -> bool:
        expiry = self._expiries.get(task_id)
        return expiry is not None and expiry > self._clock() + self._offset

    def is_unverified(self, task_id: str) -> bool:
        return task_id in self._unverified

    def is_current(self, record: RevokeRecord) -> bool:
        """Whether what the store has is at least what is known of the revoke. Where keys are set anybody may put back what was
        signed once: an older record, which may ask for more than the one that replaced it, or one whose end has come."""
        if not self._trust:
            return True
        seal = self._trust.seal_of(record)
        if seal is None or seal.stamp < self._stamps.get(record.task_id, 0):
            return False
        return seal.expires_at > self._clock() + self._offset

    def ids(self, limit: int) -> list[str]:
        """Of tasks that are revoked now, as many as that at most, the newest first."""
        known = list(self._expiries)  # at once, so that no lock is needed that may be held while a store is read
        found = (task_id for task_id in reversed(known) if self.is_revoked(task_id) and not is_pause(task_id))
        return list(islice(found, limit))

    def load(self) -> int:
        """Read all that the store has; what was known before counts until then. Returns how many revokes there are."""
        with self._turn:
            self._read_anew()
            self._verify_some()
        return len(self)

    def verify(self, task_ids: Iterable[str]) -> None:
        """Verify the revokes of these tasks that are not verified yet. Raises what the store raises."""
        if not self._unverified:
            return
        unknown = [task_id for task_id in task_ids if task_id in self._unverified]
        if unknown:
            with self._turn:
                self._verify(unknown)

    def refresh(self) -> int:
        """Read what the store has since; everything if the store was replaced. Returns how many revokes were read."""
        with self._turn:
            version = self._revokes.version()
            if version < self._seen or not self._anchor_holds():
                self._read_anew()
                self._verify_some()
                return len(self)
            self._measure()
            return (self._read_on() if version > self._seen else 0) + self._verify_some()

    def apply(self, records: Iterable[RevokeRecord]) -> list[RevokeRecord]:
        """Take over what a control message says; returns what was news. Stale versions change nothing. Signed revokes go by
        their stamps: an older one that was put back has a later version."""
        with self._turn:
            # One by one: one message may hold two revokes of a task, the later one first.
            return [record for record in records if self._apply(record)]

    def prune(self) -> int:
        """Forget what has expired; returns how many."""
        with self._turn:
            now, count = self._clock() + self._offset, 0
            for expiries in (self._expiries, self._unverified):
                expired = [task_id for task_id, expiry in expiries.items() if expiry <= now]
                count += len(expired)
                for task_id in expired:
                    del expiries[task_id]
            if len(self._stamps) > len(self._expiries) + MOST_PAST:
                self._stamps = {id: stamp for id, stamp in self._stamps.items() if id in self._expiries}
            return count

    def _apply(self, record: RevokeRecord) -> bool:
        task_id, is_later = record.task_id, record.version > max(self._seen, self._ahead.get(record.task_id, 0))
        seal = read_seal(record.seal) if self._trust else None  # signed with the message that brought it
        if not (is_later if seal is None else seal.stamp > self._stamps.get(task_id, 0)):
            return False
        if seal is not None:
            self._stamps[task_id] = seal.stamp
        if is_later:
            self._ahead[task_id] = record.version
        self._expiries[task_id] = _expiry(record)
        return True

    def _read_anew(self) -> None:
        """Into a new table, so that other threads see the old one or the new one; the old one stays if the store
        fails on the way."""
        self._measure()
        seen = self._revokes.version()  # before reading: what is written meanwhile is read once more, not missed
        expiries: dict[str, float] = {}
        for page in self._revokes.expiries(page=_PAGE):
            expiries.update(page)
        anchor = next(iter(self._revokes.since(seen - 1, limit=1)), None)
        if self._trust:
            self._unverified = {id: expiry for id, expiry in expiries.items() if id not in self._expiries}
            expiries = {id: expiry for id, expiry in self._expiries.items() if id in expiries}
        self._expiries, self._seen, self._anchor, self._ahead = expiries, seen, anchor, {}

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
            self._expiries.update({record.task_id: _expiry(record) for record in records})
            return len(records)
        taken = 0
        for record in records:
            seal = self._trust.seal_of(record)
            if seal is None or seal.stamp < self._stamps.get(record.task_id, 0):
                self.ignored += 1
                continue
            self._expiries[record.task_id], self._stamps[record.task_id] = seal.expires_at, seal.stamp
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
        """The last revoke read must still be there, or a later one for the same task, or have expired: else the store was
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
