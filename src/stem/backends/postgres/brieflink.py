"""A connection for a process that asks a little and is over, straight through libpq: no pool, and of the driver's types the
few that are asked for."""

import re
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from time import monotonic
from typing import Any

from psycopg.errors import Error, OperationalError
from psycopg.pq import ConnStatus, PGconn, PollingStatus
from psycopg.pq.abc import PGconn as Wire
from psycopg.pq.abc import PGresult

from stem.backends.postgres.address import Address
from stem.backends.postgres.columns import array
from stem.backends.postgres.exchange import Conversation, Statement
from stem.backends.postgres.refusals import DeadlinePassed, translated, unstorable
from stem.backends.postgres.speaking import Row, Speaking
from stem.backends.postgres.statements import identifier
from stem.core.errors import StoreUnavailable

_ENCODING = "utf-8"  # as `address` chooses
_PLACE = re.compile(r"%(?:\((\w+)\))?s")
_READERS: dict[int, Callable[[bytes], Any]] = {
    16: lambda raw: raw == b"t",  # bool
    17: lambda raw: bytes.fromhex(raw[2:].decode()),  # bytea
    20: int,  # bigint
    23: int,  # integer
    701: float,  # double precision
}


class BriefLink(Speaking):
    """Safe for threads; not to be used after a fork. A connection that has ended is replaced at the next call."""

    def __init__(self, address: Address, timeout_seconds: float) -> None:
        self.address = address
        self.timeout_seconds = timeout_seconds
        self._is_closed = False
        self._lock = threading.Lock()
        self._open: tuple[Wire, Conversation] | None = None

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def server_version(self, *, timeout_seconds: float) -> int:
        """Raises StoreUnavailable, StoreRefused."""
        with self._lock, self._telling():
            wire, _ = self._opened(self._deadline(timeout_seconds))
            return wire.server_version

    def rows(self, query: str | bytes, values: Any = None, *, timeout_seconds: float | None = None) -> list[Row]:
        asked, deadline = _statement(query, values), self._deadline(timeout_seconds)
        with self._lock, self._telling():
            wire, conversation = self._opened(deadline)
            try:
                return conversation.hold(deadline, asked)
            except DeadlinePassed:
                wire.finish()  # an answer that comes late must not be that to the next question
                raise

    @contextmanager
    def listening(self, channel: str) -> Iterator[Wire]:
        with self._telling():
            wire = opened(self.address.conninfo, self._deadline(None))
        try:
            Conversation(wire, _ENCODING).hold(
                self._deadline(None), Statement(f"LISTEN {identifier(channel)}".encode(), ())
            )
            yield wire
        finally:
            wire.finish()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._open is not None:
                self._open[0].finish()

    def _opened(self, deadline: float) -> tuple[Wire, Conversation]:
        if self.is_closed:
            raise StoreUnavailable(f"The store {self.address.name} was closed; connect again.")
        if self._open is not None and self._open[1].has_ended():
            self._open[0].finish()
            self._open = None
        if self._open is None:
            wire = opened(self.address.conninfo, deadline)
            self._open = wire, Conversation(wire, _ENCODING, read=_typed)
        return self._open

    def _deadline(self, timeout_seconds: float | None) -> float:
        return monotonic() + min(self.timeout_seconds, timeout_seconds or self.timeout_seconds)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except Error as error:
            raise translated(error, self.address.name, self.timeout_seconds) from error
        except UnicodeEncodeError as error:
            raise unstorable(error) from error


def opened(conninfo: str, deadline: float) -> Wire:
    """Raises OperationalError, also for a server that has not answered by the deadline."""
    wire = PGconn.connect_start(conninfo.encode())
    try:
        wanted: int = PollingStatus.WRITING
        while wanted in (PollingStatus.READING, PollingStatus.WRITING) and wire.status != ConnStatus.BAD:
            _await(wire, select.POLLIN if wanted == PollingStatus.READING else select.POLLOUT, deadline)
            wanted = wire.connect_poll()
        if wire.status != ConnStatus.OK:
            raise OperationalError(wire.get_error_message())
        wire.nonblocking = 1
    except BaseException:
        wire.finish()
        raise
    return wire


def _await(wire: Wire, wanted: int, deadline: float) -> None:
    poller = select.poll()  # a new one each time: the next address that is tried has another socket
    poller.register(wire.socket, wanted)
    if not poller.poll(max(0.0, deadline - monotonic()) * 1000):
        raise DeadlinePassed("no connection by the deadline")


def _statement(query: str | bytes, values: Mapping[str, Any] | Sequence[Any] | None) -> Statement:
    numbered, names = _numbered(query if isinstance(query, str) else query.decode())
    given = [values[name] for name in names] if isinstance(values, Mapping) else values or ()
    return Statement(numbered, tuple(map(_text, given)))


@cache
def _numbered(query: str) -> tuple[bytes, tuple[str, ...]]:
    """The driver's way to mark parameters in libpq's, and their names in order."""
    found = list(dict.fromkeys(match[1] for match in _PLACE.finditer(query) if match[1]))
    counted = iter(range(1, query.count("%s") + 1))
    text = _PLACE.sub(lambda match: f"${found.index(match[1]) + 1 if match[1] else next(counted)}", query)
    return text.encode(), tuple(found)


def _text(value: Any) -> str | None:
    match value:
        case None | str():
            return value
        case bytes():
            return "\\x" + value.hex()
        case list():
            return array(value)
        case _:
            return str(value)


def _typed(result: PGresult, encoding: str) -> list[Row]:
    def plain(raw: bytes) -> str:
        return raw.decode(encoding)

    readers = [_READERS.get(result.ftype(column), plain) for column in range(result.nfields)]
    return [
        tuple([None if (raw := result.get_value(row, n)) is None else read(raw) for n, read in enumerate(readers)])
        for row in range(result.ntuples)
    ]
