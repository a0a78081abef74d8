"""Columns of a store as Arrow batches of a table: what a table has beyond its store is derived here, a column at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from stem.contracts.history import COLUMNS, Column, Packed, Slice
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, DeadLetter
from stem.core.errors import EnvelopeUnreadable
from stem.core.heartbeat import Pulse
from stem.core.record import TaskError
from stem.pipeline import attempts
from stem.pipeline.unpacking import unpacked

if TYPE_CHECKING:
    import pyarrow as pa

_PAGE = 1000  # dead letters read in one call


class Rows:
    """Some rows by column, a list of values or an Arrow array; one that is not there is made when it is first asked for."""

    def __init__(self, stored: Mapping[str, Any], makers: "Mapping[str, Callable[[Rows], Any]]") -> None:
        self._known = dict(stored)
        self._makers = makers

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = self._makers[name](self)
        return self._known[name]

    def where(self, passed: Sequence[bool]) -> "Rows":
        if all(passed):
            return self
        return Rows({name: list(compress(column, passed)) for name, column in self._known.items()}, self._makers)


def of_slice(store: Store, piece: Slice, table: str, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
    """The rows of `events`, `tasks` or `attempts` that the slice holds."""
    needed = _needed(piece, table, schema.names)
    for chunk in _chunks(store, piece, needed):
        rows = Rows(dict(zip(needed, chunk, strict=True)), _MAKERS[table])
        if table == "attempts":
            rows = rows.where([outcome is not None for outcome in rows["outcome"]])
        yield _batch(rows, schema)


def _chunks(store: Store, piece: Slice, columns: Sequence[str]) -> "Iterator[list[Any]]":
    """Each column a list of values or an Arrow array."""
    for chunk in store.history.packed(piece, columns):
        if not isinstance(chunk, Packed):
            yield chunk
        elif (arrays := unpacked(chunk)) is not None:
            yield arrays
        else:
            yield from store.history.chunks(chunk.piece, columns)


def of_dead_letters(store: Store, where: DeadFilter, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
    cursor: str | None = None
    while True:
        page = store.deadletters.page(where, limit=_PAGE, cursor=cursor)
        yield _table([_letter(each) for each in page.items], schema)
        if page.cursor is None:
            return
        cursor = page.cursor


def of_heartbeats(store: Store, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
    now = store.upkeep.now()
    yield _table([_pulse(each, now) for each in store.heartbeats.all()], schema)


def _batch(rows: Rows, schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    def array(values: Column, kind: pa.DataType) -> pa.Array:
        # Numbers first, for Arrow reads moments out of Python several times slower.
        stored = pa.int64() if pa.types.is_timestamp(kind) else kind
        found = values if isinstance(values, pa.Array) else pa.array(values, stored)
        return found.view(kind) if pa.types.is_timestamp(kind) else found.cast(kind)

    arrays = [array(rows[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _needed(piece: Slice, table: str, names: Sequence[str]) -> list[str]:
    """The store's columns that these can be made of; never none, for even a count needs one."""
    always = ("kind", "started_at", "data") if table == "attempts" else ()
    wanted = {*always, *(source for name in names for source in _SOURCES[table].get(name, (name,)))}
    known = COLUMNS[piece.relation]
    return [name for name in known if name in wanted] or [known[0]]


class _Error(msgspec.Struct):
    type: Any = None
    message: Any = None


class _Facts(msgspec.Struct):
    """What an event's data may say that is a column. Of workers' own notes anything is possible."""

    tenant: Any = None
    dueAt: Any = None
    reason: Any = None
    error: Any = None


_decode_facts = msgspec.json.Decoder(_Facts).decode
_decode_error = msgspec.json.Decoder(_Error).decode


def _facts(rows: Rows) -> Column:
    return [None if data == "{}" else _decode_facts(data) for data in rows["data"]]


def _fact_errors(rows: Rows) -> Column:
    return [
        _Error(facts.error.get("type"), facts.error.get("message")) if facts and isinstance(facts.error, dict) else None
        for facts in rows["facts"]
    ]


def _of_task_error(attribute: str) -> Callable[[Rows], Any]:
    """What the errors of tasks have under this name, where it is text. Few tasks have one: only they are looked at."""
    get = attrgetter(attribute)

    def make(rows: Rows) -> "pa.Array":
        import pyarrow as pa
        import pyarrow.compute as pc

        is_some, errors = rows["errors"]
        found = [value if isinstance(value, str) else None for value in map(get, errors)]
        return pc.replace_with_mask(pa.nulls(len(is_some), pa.string()), is_some, pa.array(found, pa.string()))

    return make


def _task_errors(rows: Rows) -> "tuple[pa.Array, list[_Error]]":
    """Which tasks have one, and those errors."""
    import pyarrow as pa

    texts = rows["error"]
    texts = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
    is_some = texts.is_valid()
    return is_some, [_decode_error(text) for text in texts.filter(is_some).to_pylist()]


def _texts(column: str, attribute: str) -> Callable[[Rows], Column]:
    """A column of what the things in another have under this name, where it is text."""
    get = attrgetter(attribute)

    def make(rows: Rows) -> Column:
        things = rows[column]
        if not any(things):  # most chunks tell of no error at all
            return [None] * len(things)
        found = [None if thing is None else get(thing) for thing in things]
        return [value if isinstance(value, str) else None for value in found]

    return make


def _outcomes(rows: Rows) -> Column:
    return list(map(attempts.outcome, rows["kind"], rows["started_at"], rows["reason"]))


def _fingerprints(rows: Rows) -> Column:
    return list(map(attempts.fingerprint_or_none, rows["error_type"], rows["error_message"]))


_EVENT: dict[str, Callable[[Rows], Any]] = {
    "error_type": _texts("errors", "type"),
    "error_message": _texts("errors", "message"),
    "facts": _facts,
    "errors": _fact_errors,
    "tenant": _texts("facts", "tenant"),
    "due": _texts("facts", "dueAt"),
    "event_offset": lambda rows: rows["offset"],
    "happened_at": lambda rows: rows["at"],
}
_MAKERS: dict[str, dict[str, Callable[[Rows], Any]]] = {
    "events": _EVENT,
    "tasks": {
        "errors": _task_errors,
        "error_type": _of_task_error("type"),
        "error_message": _of_task_error("message"),
    },
    "attempts": {
        **_EVENT,
        "reason": _texts("facts", "reason"),
        "outcome": _outcomes,
        "fingerprint": _fingerprints,
        "finished_at": lambda rows: rows["at"],
        "wait_seconds": lambda rows: list(
            map(attempts.wait_seconds, rows["attempt"], rows["enqueued_at"], rows["started_at"], rows["due"])
        ),
        "run_seconds": lambda rows: list(map(attempts.run_seconds, rows["started_at"], rows["at"])),
    },
}

# The store's columns that a table's column is made of, where they are not its namesake.
_DATA: tuple[str, ...] = ("data",)
_OF_DATA = dict.fromkeys(("tenant", "error_type", "error_message", "reason", "fingerprint", "outcome"), _DATA)
_ALIASES: dict[str, tuple[str, ...]] = {"event_offset": ("offset",), "happened_at": ("at",)}
_SOURCES: dict[str, dict[str, tuple[str, ...]]] = {
    "events": {**_OF_DATA, **_ALIASES},
    "tasks": {"error_type": ("error",), "error_message": ("error",)},
    "attempts": {
        **_OF_DATA,
        **_ALIASES,
        "finished_at": ("at",),
        "wait_seconds": ("attempt", "enqueued_at", "started_at", "data"),
        "run_seconds": ("at", "started_at"),
    },
}


def _letter(letter: DeadLetter) -> dict[str, Any]:
    error = letter.error or TaskError("", "")
    return {
        "id": letter.id,
        "name": letter.name,
        "queue": letter.queue,
        "attempt": letter.attempt,
        "reason": letter.reason,
        "error_type": error.type or None,
        "error_message": error.message if letter.error else None,
        "fingerprint": attempts.fingerprint_or_none(error.type or None, error.message),
        "args": _arguments(letter),
        "meta": _json(letter.meta),
        "dead_at": round(letter.dead_at.timestamp() * 1_000_000),
    }


def _arguments(letter: DeadLetter) -> str | None:
    """None where the envelope cannot be read, which may be why it lies here."""
    try:
        return bytes(letter.envelope.args).decode()
    except (EnvelopeUnreadable, UnicodeDecodeError):
        return None


def _pulse(pulse: Pulse, now_seconds: float) -> dict[str, Any]:
    beat = pulse.heartbeat
    return {
        "worker": beat.worker_id,
        "namespace": beat.namespace,
        "host": beat.host,
        "pid": beat.pid,
        "concurrency": beat.concurrency,
        "in_flight": beat.in_flight,
        "at": round((now_seconds - pulse.age_seconds) * 1_000_000),
        "data": _json(beat),
    }


def _table(rows: Sequence[dict[str, Any]], schema: "pa.Schema") -> "pa.RecordBatch":
    return _batch(Rows({name: [row[name] for row in rows] for name in schema.names}, {}), schema)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
