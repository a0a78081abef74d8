"""Stage pushes in one file per job beside the database. One transaction reads it and makes them tasks."""

import os
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from itertools import groupby, islice, repeat
from operator import itemgetter
from pathlib import Path

import msgspec

from stem.backends.sqlite.connection.errors import is_busy, translated
from stem.backends.sqlite.log import event_rows
from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.statements import SQL
from stem.backends.sqlite.tasks import retention
from stem.backends.sqlite.tasks.write_batch import WriteBatch
from stem.backends.tenants import staged_tenants
from stem.contracts.staging import LEFTOVER_SECONDS, Calls, Part, Promotion, Staging, UniformBodies, incomplete
from stem.core import envelope as envelopes
from stem.core.envelope import Push, Receipt
from stem.core.errors import StemError, StoreRefused
from stem.runtime.files import folder_beside, make_file, make_folder_beside

# A job's file need not survive a crash of the machine, because the job would not either. The journal undoes a write that
# was killed half-way, and costs next to nothing if rows are only added.
_PRAGMAS = ("page_size = 16384", "journal_mode = TRUNCATE", "synchronous = OFF", "cache_size = -16384")
_WAIT_SECONDS = 60.0  # for others that stage parts of the same job
_GLANCE_SECONDS = 0.001
_TAILS = ("", "-journal")
# Pushes in an open transaction; the batch has the topics to ring
PushIn = Callable[[sqlite3.Cursor, Sequence[Push], Sequence[bytes]], tuple[list[Receipt], WriteBatch]]


class SqliteStaging(Staging):
    def __init__(self, namespace: SqliteNamespace, push_in: PushIn) -> None:
        self._namespace = namespace
        self._push_in = push_in
        self._folder = stage_folder(namespace)

    def promoted(self, job: str) -> Promotion | None:
        with self._namespace.database.reading() as connection:
            return self._remembered(connection, job)

    def _stage(self, job: str, part: str, calls: Calls) -> None:
        tenants = staged_tenants(calls.bodies)
        one = _one_kind(calls, tenants)
        uniform = calls.bodies if one is not None and isinstance(calls.bodies, UniformBodies) else None
        pieces = (None, None) if uniform is None else (uniform.between, uniform.behind)
        texts = calls.bodies if uniform is None else uniform.args
        different = [one] if one is not None else list(dict.fromkeys(_kinds(calls, tenants)))
        runs = list(_runs(calls.ids)) if one is not None else []  # all this before others have to wait
        with self._opened(job) as connection:
            _begin(connection)
            ((number,),) = connection.execute(SQL["stage_part_add"], (part, len(calls.ids))).fetchall()
            ((last,),) = connection.execute(SQL["stage_kind_last"]).fetchall()
            kinds = {kind: last + place for place, kind in enumerate(different, 1)}
            rows = [(place, number, *kind, *pieces) for kind, place in kinds.items()]
            connection.executemany(SQL["stage_kind_add"], rows)
            connection.executemany(SQL["stage_run_add"], [(last + 1, *run) for run in runs])
            places = repeat(last + 1) if one is not None else map(kinds.__getitem__, _kinds(calls, tenants))
            connection.executemany(SQL["stage_row_add"], zip(places, calls.ids, texts, strict=False))
            connection.execute("COMMIT")

    def _promote(self, job: str, parts: Sequence[Part], pushes: Sequence[Push]) -> Promotion:
        if (before := self.promoted(job)) is not None:
            self._discard(job)
            return before
        try:
            return self._promote_now(job, parts, pushes)
        except (StemError, sqlite3.Error):
            # Another process was first, and has removed the file while we read it.
            if (before := self.promoted(job)) is None:
                raise
            return before

    def _promote_now(self, job: str, parts: Sequence[Part], pushes: Sequence[Push]) -> Promotion:
        bodies = [envelopes.encode(push.envelope) for push in pushes]
        with self._opened(job):
            pass  # so that there is one to read from, however empty
        with self._namespace.database.writing_from(self._file(job)) as connection:
            # Looked up again: another process may have been first.
            promotion = self._remembered(connection, job)
            queues: set[str] = set()
            topics: set[str] = set()
            if promotion is None:
                numbers = _whole(connection, job, parts)
                promotion = self._make_tasks(connection, numbers, sum(part.rows for part in parts), queues)
                row = (self._namespace.ns, job, promotion.created, promotion.known, self._namespace.now())
                connection.execute(SQL["stage_job_put"], row)
                if pushes:
                    topics = self._push_in(connection.cursor(), pushes, bodies)[1].topics
        if promotion.created:
            topics |= {"events", *(f"queue:{queue}" for queue in queues)}
        self._namespace.ring(topics)
        self._discard(job)
        return promotion

    def _discard(self, job: str) -> None:
        _remove(self._file(job))

    def _make_tasks(self, connection: sqlite3.Connection, numbers: list[int], rows: int, queues: set[str]) -> Promotion:
        ((last,),) = connection.execute(SQL["stage_last"]).fetchall()
        if not rows:
            return Promotion(0, 0)
        now = self._namespace.now()
        floor = self._namespace.first + self._namespace.take_numbers(connection, "seq", last) - 1
        chosen = (floor, now, msgspec.json.encode(numbers).decode())
        created = connection.execute(SQL["stage_tasks"], chosen).rowcount
        if created < rows:
            horizon = now - self._namespace.retention.results_seconds
            outlived = connection.execute(SQL["stage_outlived"], (floor, chosen[2], horizon)).fetchall()
            if gone := retention.unneeded(connection, outlived, horizon):
                retention.forget(connection, gone)
                created += connection.execute(SQL["stage_tasks"], chosen).rowcount
        new = (*chosen, created == rows)
        connection.execute(SQL["stage_ready"], new)
        if connection.execute(SQL["stage_any_delayed"], chosen).fetchone()[0]:
            connection.execute(SQL["stage_delayed"], new)
        if created:
            with closing(self._runs(connection, chosen, created, rows)) as runs:
                queues |= event_rows.append_enqueued(connection, self._namespace, runs, now, created)
        return Promotion(created, rows - created)

    def _runs(
        self, connection: sqlite3.Connection, chosen: tuple[int, float, str], created: int, rows: int
    ) -> Generator[event_rows.Run, None, None]:
        if created == rows == connection.execute(SQL["stage_runs_count"], chosen).fetchone()[0]:
            yield from connection.execute(SQL["stage_runs"], chosen)
            return
        told = connection.execute(SQL["stage_told"], (*chosen, created == rows))
        for (name, queue, tenant), group in groupby(told, key=itemgetter(1, 2, 3)):
            while run := [id for id, *_ in islice(group, event_rows.EVENTS_A_ROW)]:
                yield len(run), ",".join(run), name, queue, tenant

    def _remembered(self, connection: sqlite3.Connection, job: str) -> Promotion | None:
        row = connection.execute(SQL["stage_job_get"], (self._namespace.ns, job)).fetchone()
        return None if row is None else Promotion(*row)

    def _file(self, job: str) -> Path:
        # The number is that of the tables' shape: what another version of us has left is not gone on with.
        return self._folder / sha256(f"{self._namespace.ns}/{job}/3".encode()).hexdigest()[:32]

    @contextmanager
    def _opened(self, job: str) -> Iterator[sqlite3.Connection]:
        """A connection for this call alone: none is open when the process forks between two of them."""
        path = self._file(job)
        with translated(path):
            self._make(path)
            connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None)
            with closing(connection):
                for pragma in _PRAGMAS:
                    connection.execute(f"PRAGMA {pragma}").fetchall()
                connection.execute(SQL["stage_parts_make"])
                connection.execute(SQL["stage_kinds_make"])
                connection.execute(SQL["stage_rows_make"])
                connection.execute(SQL["stage_runs_make"])
                yield connection

    def _make(self, path: Path) -> None:
        """Create the file in a folder that is no planted link, with the permissions of the database."""
        try:
            store = self._namespace.database.path.stat()
            make_folder_beside(store, self._folder)
            with folder_beside(store, self._folder):
                make_file(path, store.st_mode & 0o666)
        except OSError as error:
            raise StoreRefused(f"{self._folder} cannot be used ({error.strerror}); remove it.") from error


def stage_folder(namespace: SqliteNamespace) -> Path:
    return Path(f"{namespace.database.path}-stage")


def prune_leftovers(namespace: SqliteNamespace) -> int:
    """Drop the files that nobody has written to for a day; of any namespace, because only their age counts."""
    gone = 0
    with suppress(OSError), folder_beside(namespace.database.path.stat(), stage_folder(namespace)) as folder:
        for name in os.listdir(folder):
            age_seconds = time.time() - os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
            if "-" not in name and age_seconds >= LEFTOVER_SECONDS:
                _remove(name, folder)
                gone += 1
    return gone


def _begin(connection: sqlite3.Connection) -> None:
    """Looks again and again whether it may: SQLite's own waiting soon sleeps longer than the others write."""
    end = time.monotonic() + _WAIT_SECONDS
    connection.execute("PRAGMA busy_timeout = 0").fetchall()
    while not connection.in_transaction:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= end:
                raise
            time.sleep(_GLANCE_SECONDS)
    connection.execute(f"PRAGMA busy_timeout = {_WAIT_SECONDS * 1000:.0f}").fetchall()


def _remove(path: Path | str, folder: int | None = None) -> None:
    for tail in _TAILS:
        with suppress(FileNotFoundError):
            os.unlink(f"{path}{tail}", dir_fd=folder)


def _kinds(calls: Calls, tenants: list[str | None] | None) -> Iterator[tuple[object, ...]]:
    """The kind and the tenant of each push."""
    return ((*kind, tenant) for kind, tenant in zip(calls.kinds(), tenants or repeat(None), strict=False))


def _one_kind(calls: Calls, tenants: list[str | None] | None) -> tuple[object, ...] | None:
    kind = calls.one_kind()
    if kind is None or (tenants is not None and tenants.count(tenants[0]) < len(tenants)):
        return None
    return (*kind, None if tenants is None else tenants[0])


def _runs(ids: Sequence[str]) -> Iterator[tuple[int, str]]:
    """In pieces that fit a row of the log: how many, and the ids with commas between them."""
    for first in range(0, len(ids), event_rows.EVENTS_A_ROW):
        run = ids[first : first + event_rows.EVENTS_A_ROW]
        yield len(run), ",".join(run)


def _whole(connection: sqlite3.Connection, job: str, parts: Sequence[Part]) -> list[int]:
    """The numbers of these parts. Raises StoreRefused."""
    staged = {name: (number, rows) for name, number, rows in connection.execute(SQL["stage_parts"])}
    for part in parts:
        _, rows = staged.get(part.name, (0, 0))
        if rows != part.rows:
            raise StoreRefused(incomplete(job, part, rows))
    return [staged[part.name][0] for part in parts if part.rows]
