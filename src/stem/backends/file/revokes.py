"""Keep revokes in a file of lines."""

import os
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import Lock

from stem.backends.file.journal import Follower, Journal, lines_of
from stem.backends.file.lines import RevokeLine, highest, record, rewritten, written
from stem.backends.unreadable import readable
from stem.contracts.steering.revokes import Revokes
from stem.core.record import moment
from stem.core.revoke import RevokeRecord, RevokeRequest
from stem.runtime.clock import Clock

# Marks that were replaced stay in the file until as many of them gather as are in force, and this many more.
_SLACK = 1000


class FileRevokes(Revokes):
    """Threads may share one; a forked child reads anew."""

    def __init__(self, journal: Journal, namespace: str, clock: Clock) -> None:
        self._journal = journal
        self._namespace = namespace
        self._clock = clock
        self._begin()

    def put(self, requests: Sequence[RevokeRequest]) -> list[RevokeRecord]:
        if not requests:
            return []
        with self._reading(), self._journal.writing() as number:
            self._journal.end_line(number)  # first: what was torn just before its end counts from now on
            self._catch_up()
            records = [self._record(request, self._highest + 1 + n) for n, request in enumerate(requests)]
            self._journal.append(number, written(self._namespace, records))
        return records

    def get(self, task_ids: Sequence[str]) -> dict[str, RevokeRecord]:
        with self._current() as is_live:
            found = {id: self._latest[id] for id in task_ids if id in self._latest}
            return {id: mark for id, mark in found.items() if is_live(mark)}

    def since(self, version: int, *, limit: int) -> list[RevokeRecord]:
        with self._current() as is_live:
            found: list[RevokeRecord] = []
            for n in range(bisect_right(self._log, version, key=lambda mark: mark.version), len(self._log)):
                if len(found) >= limit:
                    break
                mark = self._log[n]
                if self._latest[mark.task_id] is mark and is_live(mark):
                    found.append(mark)
            return found

    def version(self) -> int:
        with self._current():
            return self._highest

    def prune(self) -> int:
        with self._reading(), self._journal.writing() as number:
            self._journal.end_line(number)
            self._catch_up()
            is_live = self._liveness()
            expired = [id for id, mark in self._latest.items() if not is_live(mark)]
            if expired or len(self._log) > 2 * len(self._latest) + _SLACK:
                self._journal.replace(number, self._without(set(expired)))
        return len(expired)

    def now(self) -> float:
        return self._clock()

    def close(self) -> None:
        """Using it again opens the file again."""
        with self._reading():
            self._forget()
            self._follower.close()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = Lock()
        self._follower = Follower(self._journal.path)
        self._forget()

    def _forget(self) -> None:
        self._latest: dict[str, RevokeRecord] = {}
        self._log: list[RevokeRecord] = []  # by version, those that were replaced among them
        self._highest = 0

    @contextmanager
    def _reading(self) -> Iterator[None]:
        if self._pid != os.getpid():
            self._begin()  # a thread of the parent may hold the lock, and it is not here to give it up
        with self._lock, self._journal.translated():
            yield

    @contextmanager
    def _current(self) -> Iterator[Callable[[RevokeRecord], bool]]:
        """All that the file says now, and what tells the living from the expired."""
        with self._reading():
            self._catch_up()
            yield self._liveness()

    def _catch_up(self) -> None:
        self._follower.follow(self._forget, self._take)

    def _take(self, lines: list[RevokeLine]) -> None:
        for line in lines:
            if line.namespace != self._namespace:
                continue
            before, self._highest = self._highest, max(self._highest, line.version)
            for mark in readable([line] if line.task_id is not None else [], record):
                self._latest[mark.task_id] = mark
                if mark.version > before:
                    self._log.append(mark)
                else:  # written by hand
                    insort(self._log, mark, key=lambda each: each.version)

    def _liveness(self) -> Callable[[RevokeRecord], bool]:
        now = moment(self._clock())
        return lambda mark: mark.expires_at is None or mark.expires_at > now

    def _record(self, request: RevokeRequest, version: int) -> RevokeRecord:
        now, lifetime = moment(self._clock()), request.expires_seconds
        return request.stored(version, now, None if lifetime is None else now + timedelta(seconds=lifetime))

    def _without(self, expired: set[str]) -> Iterator[bytes]:
        """The whole file, of every namespace the latest marks, of this one those that have not expired."""
        latest: dict[tuple[str, str], RevokeLine] = {}
        versions: dict[str, int] = {}
        for line in lines_of(self._journal.path):
            versions[line.namespace] = max(versions.get(line.namespace, 0), line.version)
            if line.task_id is not None:
                latest.pop((line.namespace, line.task_id), None)  # so that they stay in the order of versions
                latest[line.namespace, line.task_id] = line
        for (namespace, task_id), line in latest.items():
            if namespace != self._namespace or task_id not in expired:
                yield rewritten(line)
        for namespace, version in versions.items():
            yield highest(namespace, version)
