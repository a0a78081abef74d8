"""Turn columns of a store into Arrow batches of a table, and derive the columns that the store does not have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from stem.contracts.history import COLUMNS, Column, Packed, Slice
from stem.contracts.schedules import Scheduled
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, DeadLetter
from stem.core.errors import EnvelopeUnreadable
from stem.core.heartbeat import Pulse
from stem.core.record import TaskError
from stem.pipeline import schemas
from stem.pipeline.attempts import attempts_of, fingerprint_or_none
from stem.pipeline.source.unpack import unpacked

if TYPE_CHECKING:
    import pyarrow as pa

_PAGE = 1000  # dead letters read in one call


class Columns:
    """Rows by column, as lists or Arrow arrays. A column that the store does not have is derived when it is first used."""

    def __init__(self, stored: Mapping[str, Any], makers: "Mapping[str, Callable[[Columns], Any]]") -> None:
        self._known = dict(stored)
        self._makers = makers

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = self._makers[name](self)
        return self._known[name]


def of_slice(store: Store, piece: Slice, table: str, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
    """The rows of `events`, `tasks` or `attempts` that the slice holds."""
    if table == "attempts":
        yield from _attempts(store, piece, schema)
        return
    needed = _needed(piece, table, schema.names)
    for chunk in _chunks(store, piece, needed):
        yield _batch(Columns(dict(zip(needed, chunk, strict=True)), _MAKERS[table]), schema)


def _attempts(store: Store, piece: Slice, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    aliases = schemas.ALIASES["attempts"]
    for events in of_slice(store, piece, "events", schemas.arrow_schema(schemas.EVENTS)):
        rows = attempts_of(pa.Table.from_batches([events]))
        columns = [rows[aliases.get(name, name)] for name in schema.names]
        yield from pa.table(columns, names=schema.names).cast(schema).to_batches()


def _chunks(store: Store, piece: Slice, columns: Sequence[str]) -> "Iterator[list[Any]]":
    """Yield chunks of columns, each a list or an Arrow array."""
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
        yield table_of([_letter(each) for each in page.items], schema)
        if page.cursor is None:
            return
        cursor = page.cursor


def of_heartbeats(store: Store, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
    now = store.upkeep.now()
    yield table_of([_pulse(each, now) for each in store.heartbeats.all()], schema)


def of_schedules(store: Store, schema: "pa.Schema") -> "pa.RecordBatch":
    return table_of([_schedule(each) for each in store.schedules.all()], schema)


def _batch(rows: Columns, schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    def array(values: Column, kind: pa.DataType) -> pa.Array:
        # As numbers: Arrow converts datetime objects several times slower.
        stored = pa.int64() if pa.types.is_timestamp(kind) else kind
        found = values if isinstance(values, pa.Array) else pa.array(values, stored)
        return found.view(kind) if pa.types.is_timestamp(kind) else found.cast(kind)

    arrays = [array(rows[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _needed(piece: Slice, table: str, names: Sequence[str]) -> list[str]:
    """The store's columns that these are made of; at least one, because even a count needs one."""
    wanted = {source for name in names for source in _SOURCES[table].get(name, (name,))}
    known = COLUMNS[piece.relation]
    return [name for name in known if name in wanted] or [known[0]]


class _Error(msgspec.Struct):
    type: Any = None
    message: Any = None


class _Facts(msgspec.Struct):
    """The fields of an event's data that are columns. A worker may have put anything there."""

    tenant: Any = None
    error: Any = None


_decode_facts = msgspec.json.Decoder(_Facts).decode
_decode_error = msgspec.json.Decoder(_Error).decode


def _facts(rows: Columns) -> Column:
    return [None if data == "{}" else _decode_facts(data) for data in rows["data"]]


def _fact_errors(rows: Columns) -> Column:
    return [
        _Error(facts.error.get("type"), facts.error.get("message")) if facts and isinstance(facts.error, dict) else None
        for facts in rows["facts"]
    ]


def _of_task_error(attribute: str) -> Callable[[Columns], Any]:
    """A column of an attribute of task errors, where it is text. Few tasks have an error, so only those are decoded."""
    get = attrgetter(attribute)

    def make(rows: Columns) -> "pa.Array":
        import pyarrow as pa
        import pyarrow.compute as pc

        is_some, errors = rows["errors"]
        found = [value if isinstance(value, str) else None for value in map(get, errors)]
        return pc.replace_with_mask(pa.nulls(len(is_some), pa.string()), is_some, pa.array(found, pa.string()))

    return make


def _task_errors(rows: Columns) -> "tuple[pa.Array, list[_Error]]":
    """Which tasks have an error, and those errors."""
    import pyarrow as pa

    texts = rows["error"]
    texts = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
    is_some = texts.is_valid()
    return is_some, [_decode_error(text) for text in texts.filter(is_some).to_pylist()]


def _texts(column: str, attribute: str) -> Callable[[Columns], Column]:
    """A column of an attribute of another column's values, where it is text."""
    get = attrgetter(attribute)

    def make(rows: Columns) -> Column:
        things = rows[column]
        if not any(things):  # most chunks have no error
            return [None] * len(things)
        found = [None if thing is None else get(thing) for thing in things]
        return [value if isinstance(value, str) else None for value in found]

    return make


_MAKERS: dict[str, dict[str, Callable[[Columns], Any]]] = {
    "events": {
        "error_type": _texts("errors", "type"),
        "error_message": _texts("errors", "message"),
        "facts": _facts,
        "errors": _fact_errors,
        "tenant": _texts("facts", "tenant"),
        "event_offset": lambda rows: rows["offset"],
        "happened_at": lambda rows: rows["at"],
    },
    "tasks": {
        "errors": _task_errors,
        "error_type": _of_task_error("type"),
        "error_message": _of_task_error("message"),
    },
}

# The store's column that a table's column is made of, where it has another name.
_SOURCES: dict[str, dict[str, tuple[str, ...]]] = {
    "events": {
        **dict.fromkeys(("tenant", "error_type", "error_message"), ("data",)),
        **{alias: (name,) for alias, name in schemas.ALIASES["events"].items()},
    },
    "tasks": {"error_type": ("error",), "error_message": ("error",)},
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
        "fingerprint": fingerprint_or_none(error.type or None, error.message),
        "args": _arguments(letter),
        "meta": _json(letter.meta),
        "dead_at": microseconds(letter.dead_at),
    }


def _arguments(letter: DeadLetter) -> str | None:
    """None if the envelope cannot be read, which may be why it is a dead letter."""
    try:
        return letter.envelope.shown_args.decode()
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


def _schedule(found: Scheduled) -> dict[str, Any]:
    entry, state = found.entry, found.state
    return {
        "id": entry.id,
        "name": entry.task,
        "spec": entry.spec,
        "args": _json(entry.shown_args),
        "queue": entry.options.get("queue"),
        "time_zone": entry.time_zone,
        "jitter_seconds": entry.jitter_seconds,
        "is_enabled": entry.is_enabled,
        "version": entry.version,
        "last_run_at": microseconds(state.last_run_at),
        "next_run_at": microseconds(state.instant),
    }


def microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1_000_000)


def table_of(rows: Sequence[dict[str, Any]], schema: "pa.Schema") -> "pa.RecordBatch":
    return _batch(Columns({name: [row[name] for row in rows] for name in schema.names}, {}), schema)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
