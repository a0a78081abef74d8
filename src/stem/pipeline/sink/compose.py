"""Turn rows of a DataFrame into task calls, a batch at a time; what rows have in common is computed once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import repeat
from typing import TYPE_CHECKING, Any, cast

import msgspec

from stem.client.send.compose import envelope_template, sensitive_errors
from stem.client.send.signing import sign
from stem.client.task.options import planned
from stem.client.task.signature import FunctionSignature
from stem.contracts.staging import FRONT, Calls, UniformBodies
from stem.core import envelope as envelopes
from stem.core.envelope import Envelope, encode_args
from stem.core.errors import StemError, UsageError
from stem.core.record import moment as moment_of
from stem.core.text.masking import MASK
from stem.core.text.sensitive import masked_args, masked_object
from stem.pipeline.sink.variants import is_variant, variant_values
from stem.pipeline.sink.write_options import WriteOptions, headers, moment

if TYPE_CHECKING:
    import pyarrow as pa

_SPREAD = 0x9E3779B97F4A7C15  # the golden ratio: neighbours differ in every digit
_LENGTH = 36  # of a UUID


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot become a task: its number in the partition, and why."""

    row: int
    reason: str
    data: str  # the row as JSON


@dataclass(frozen=True, slots=True)
class CallTemplate:
    """The common part of calls of one task with the same options."""

    envelope_template: Envelope
    signature: FunctionSignature | None
    due_at: float | None
    middle: str  # of the body, between id and arguments
    tail: str  # of the body, after the arguments


class Composer:
    """Composes the calls of one try at one partition. Ids follow from job and row, so every try makes the same ones."""

    def __init__(self, write: WriteOptions, job: str, partition: int) -> None:
        self._write = write
        self._app = write.open_app()
        self._store_connection = self._app.store_connection
        self._sent_at = moment_of(self._store_connection.clock())
        self._kinds: dict[tuple[Any, ...], CallTemplate | str] = {}
        self._job = job
        self._ids = RowIds(job, partition)
        self._row = 0
        self._row_type = _row_type(write.arguments)
        # Middleware and signatures need each envelope.
        self._is_plain = not (self._store_connection.hooks.middleware or self._store_connection.keyring)

    def compose(self, batch: "pa.RecordBatch") -> tuple[Calls | None, list[BadRow]]:
        """The calls, and the rows that cannot become one."""
        if not len(batch):
            return None, []
        first = self._row
        self._row += len(batch)
        kinds, ids = self._kinds_of(batch), self._ids_of(batch, first)
        lines = self._lines(batch, kinds) if self._is_plain else None
        if lines is None:
            return self._one_by_one(batch, first, ids, kinds)
        return _together(cast("list[str]", ids), cast("list[CallTemplate]", kinds), lines), []

    def _kinds_of(self, batch: "pa.RecordBatch") -> list[CallTemplate | str]:
        """One template per row, or the reason why there is none."""
        columns = self._write.columns
        if not columns.keys() - {"key"}:
            return [self._kind(None, None, None, None, None)] * len(batch)
        cells = [
            values(batch.column(columns[name])) if name in columns else repeat(None)
            for name in ("task", "queue", "priority", "notBefore")
        ]
        header_cells: Iterable[Any] = repeat(None)
        if "headers" in columns:
            header_cells = map(_hashable, values(batch.column(columns["headers"])))
        keys = zip(*cells, header_cells, strict=False)
        return [self._kinds.get(key) or self._kind(*key) for key in keys]

    def _kind(self, *key: Any) -> CallTemplate | str:
        if key not in self._kinds:
            try:
                self._kinds[key] = self._made(*key)
            except StemError as error:
                self._kinds[key] = str(error)
        return self._kinds[key]

    def _made(self, task: Any, queue: Any, priority: Any, not_before: Any, row_headers: Any) -> CallTemplate:
        write, store_connection = self._write, self._store_connection
        given = {
            "queue": queue,
            "priority": priority,
            "not_before": moment(not_before),
            "headers": headers(dict(row_headers) if isinstance(row_headers, tuple) else row_headers),
        }
        options = {name: write.defaults.get(name) if value is None else value for name, value in given.items()}
        name = write.defaults.get("task") if task is None else task
        if name is None:
            raise UsageError("The row names no task, and the write has no option task.")
        definition = self._app.sender(name, check=write.app is not None).definition
        if definition.plan.unique != "":
            raise UsageError(f"Task {name} is unique, and unique calls cannot be staged; enqueue them one by one.")
        plan = planned(definition.plan, options)
        if plan.is_broadcast:
            raise UsageError(
                f"A route broadcasts task {name}, and broadcasts cannot be staged; name a queue for the rows."
            )
        if write.args_column is None and definition.signature is not None:
            definition.signature.bind_object(dict.fromkeys(write.arguments))
        sent = envelope_template(definition.name, plan, is_fair=store_connection.settings.fair_share)
        sent = msgspec.structs.replace(sent, enqueued_at=self._sent_at)
        due_at = None if plan.not_before is None else plan.not_before.timestamp()
        return CallTemplate(sent, definition.signature, due_at, *_template(sent))

    def _ids_of(self, batch: "pa.RecordBatch", first: int) -> list[str | None]:
        column = self._write.columns.get("key")
        if column is None:
            return list[str | None](self._ids.numbered(first, len(batch)))
        return [None if key is None else self._ids.keyed(key) for key in values(batch.column(column))]

    def _lines(self, batch: "pa.RecordBatch", kinds: Sequence[CallTemplate | str]) -> list[str] | None:
        """The arguments of all rows as JSON; None if some row must be checked by itself."""
        write = self._write
        different = {id(kind): kind for kind in kinds}.values()
        signatures = {id(kind.signature): kind.signature for kind in different if isinstance(kind, CallTemplate)}
        has_bad_key = "key" in write.columns and batch.column(write.columns["key"]).null_count > 0
        if has_bad_key or len(signatures) != 1 or any(isinstance(kind, str) for kind in different):
            return None
        if write.args_column is not None:
            return None
        (signature,) = signatures.values()
        if not write.arguments:
            encoded = b"\n".join([b"{}"] * len(batch))
        else:
            columns = [batch.column(name) for name in write.arguments]
            if not all(map(_is_plain_column, columns)):
                return None
            cells = [_given(name, column, signature) for name, column in zip(write.arguments, columns, strict=True)]
            encoded = _encoder.encode_lines(list(map(self._row_type, *cells)))[:-1]
        if b"\\u0000" in encoded or (signature is not None and not signature.fits(encoded)):
            return None
        lines = encoded.decode().split("\n")
        return lines if max(map(len, lines)) * 4 <= self._store_connection.settings.max_args_bytes else None

    def _one_by_one(
        self, batch: "pa.RecordBatch", first: int, ids: Sequence[str | None], kinds: Sequence[CallTemplate | str]
    ) -> tuple[Calls | None, list[BadRow]]:
        bad: list[BadRow] = []
        good: list[tuple[CallTemplate, Envelope]] = []
        for place, (row, id, kind) in enumerate(zip(_rows(batch), ids, kinds, strict=True)):
            try:
                good.append(self._one(row, id, kind))
            except StemError as error:
                bad.append(BadRow(first + place, str(error), self._shown(row, kind)))
        return _called(good), bad

    def _one(self, row: dict[str, Any], id: str | None, kind: CallTemplate | str) -> tuple[CallTemplate, Envelope]:
        if isinstance(kind, str):
            raise UsageError(kind)
        if id is None:
            raise UsageError(f"The key in column {self._write.columns['key']!r} is null; give every row one.")
        arguments = self._arguments(row, kind.signature)
        if kind.signature is not None:
            arguments = dict(kind.signature.bind_object(arguments))
        encode = encode_args if kind.signature is None else kind.signature.encode
        with sensitive_errors(arguments, kind.envelope_template.sensitive):
            args = encode(arguments, limit_bytes=self._store_connection.settings.max_args_bytes)
        sent = self._store_connection.hooks.enqueue(msgspec.structs.replace(kind.envelope_template, id=id, args=args))
        if not self._store_connection.keyring:
            return kind, sent
        return kind, sign(sent, self._store_connection.keyring, namespace=self._store_connection.settings.namespace)

    def _shown(self, row: dict[str, Any], kind: CallTemplate | str) -> str:
        """The row as the table of rejects keeps it. Where its task is unknown, what any task of the app declares sensitive is
        masked."""
        if isinstance(kind, CallTemplate):
            names = kind.envelope_template.sensitive
        else:
            names = tuple(name for task in self._app.tasks.values() for name in task.definition.plan.sensitive)
        column = self._write.args_column
        if names and column is not None:
            match row[column]:
                case str(text):
                    args: Any = masked_args(text.encode(), names).decode()
                case dict(given):
                    args = masked_object(given, names)
                case _:
                    args = MASK
            row = {**row, column: args}
        elif names:
            row = masked_object(row, names)
        return msgspec.json.encode(row, enc_hook=repr).decode(errors="replace")

    def _arguments(self, row: dict[str, Any], signature: FunctionSignature | None) -> dict[str, Any]:
        """Leave out NULLs for which the argument has a default. JSON is left as it is."""
        if self._write.args_column is None:
            return _without_nulls({name: row[name] for name in self._write.arguments}, signature)
        value = row[self._write.args_column]
        is_json = isinstance(value, str)
        if is_json:
            try:
                value = msgspec.json.decode(value)
            except (msgspec.MsgspecError, RecursionError) as error:
                raise UsageError(f"Column {self._write.args_column!r} is not JSON ({error}).") from None
        if not isinstance(value, dict):
            raise UsageError(f"Column {self._write.args_column!r} is not an object of named arguments.")
        return value if is_json else _without_nulls(value, signature)


class RowIds:
    """Ids of a job's rows, as UUIDs of version 8. Those of a partition share a prefix and follow the order of its rows, so that
    stores write them next to each other. The last digits are spread, because Redis hashes long texts by only some of their
    characters."""

    def __init__(self, job: str, partition: int) -> None:
        seed = blake2b(f"{job}\n{partition}".encode(), digest_size=11).hexdigest()
        self._prefix, self._noise = f"{seed[:8]}-{seed[8:10]}", int(seed[10:], 16)
        self._job = blake2b(job.encode(), digest_size=5).hexdigest()
        self._keyed = blake2b(job.encode(), digest_size=11)

    def numbered(self, first: int, count: int) -> list[str]:
        """All at once: formatting each id by itself would be half of the cost of composing."""
        import numpy as np

        rows = np.arange(first, first + count, dtype=np.uint64)
        digits = np.empty((count, 10), np.uint8)
        digits[:, :4] = rows.astype(">u4").view(np.uint8).reshape(count, 4)
        spread = rows * np.uint64(_SPREAD) + np.uint64(self._noise)
        digits[:, 4:] = spread.astype(">u8").view(np.uint8).reshape(count, 8)[:, 2:]
        shown = np.frombuffer(digits.tobytes().hex().encode(), np.uint8).reshape(count, 20)
        ids = np.empty((count, _LENGTH), np.uint8)
        ids[:] = np.frombuffer(f"{self._prefix}00-8000-8000-000000000000".encode(), np.uint8)
        for there, here in ((slice(11, 13), slice(2)), (slice(15, 18), slice(2, 5)), (slice(20, 23), slice(5, 8))):
            ids[:, there] = shown[:, here]
        ids[:, 24:] = shown[:, 8:]
        text = ids.tobytes().decode()
        return [text[at : at + _LENGTH] for at in range(0, len(text), _LENGTH)]

    def keyed(self, key: object) -> str:
        hashed = self._keyed.copy()
        hashed.update(f"\n{key}".encode())
        digits = hashed.hexdigest()
        job = self._job
        return f"{job[:8]}-{job[8:]}{digits[:2]}-8{digits[2:5]}-8{digits[5:8]}-{digits[8:20]}"


def values(column: "pa.Array") -> list[Any]:
    """The Python values of a column; the fastest way for numbers and texts without nulls."""
    import pyarrow.types as kinds

    if column.null_count == 0 and (kinds.is_integer(column.type) or kinds.is_floating(column.type)):
        found: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return found
    if kinds.is_string(column.type):
        texts: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return texts
    if is_variant(column.type):
        return variant_values(column)
    cells: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    return cells


def _rows(batch: "pa.RecordBatch") -> list[dict[str, Any]]:
    if not batch.num_columns:
        return [{} for _ in range(len(batch))]
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*map(values, batch.columns), strict=True)]


def _given(name: str, column: "pa.Array", signature: FunctionSignature | None) -> list[Any]:
    """The values of an argument; UNSET, which JSON leaves out, for a NULL with a default."""
    cells = values(column)
    if not column.null_count or signature is None or name not in signature.optional:
        return cells
    return [msgspec.UNSET if cell is None else cell for cell in cells]


def _without_nulls(arguments: dict[str, Any], signature: FunctionSignature | None) -> dict[str, Any]:
    optional = signature.optional if signature is not None else frozenset()
    return {name: value for name, value in arguments.items() if value is not None or name not in optional}


def _is_plain_column(column: "pa.Array") -> bool:
    """Whether JSON can represent every value. NaN and nested values must be checked one by one."""
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    if kinds.is_floating(column.type):
        return bool(pc.all(pc.is_finite(column)).as_py() is not False)
    return not kinds.is_nested(column.type)


def _row_type(names: Sequence[str]) -> Any:
    fields = [f"a{number}" for number in range(len(names))]
    return msgspec.defstruct("Row", fields, rename=dict(zip(fields, names, strict=True)), frozen=True)


def _template(sent: Envelope) -> tuple[str, str]:
    """The body of a call in two pieces: between its id and its arguments, and after those."""
    body = envelopes.encode(msgspec.structs.replace(sent, id="", args=msgspec.Raw(b"0"))).decode()
    middle = f'","name":{msgspec.json.encode(sent.name).decode()},"args":'
    front = f"{FRONT}{middle}0"
    if not body.startswith(front):
        raise AssertionError("an envelope begins with id, name and arguments")
    return middle, body[len(front) :]


def _together(ids: Sequence[str], kinds: Sequence[CallTemplate], lines: Sequence[str]) -> Calls:
    first = kinds[0]
    if all(kind is first for kind in kinds):
        sent, count = first.envelope_template, len(ids)
        return Calls(
            ids=ids,
            names=[sent.name] * count,
            queues=[sent.queue] * count,
            priorities=[sent.priority] * count,
            bodies=UniformBodies(ids, first.middle, lines, first.tail),
            dues_at=None if first.due_at is None else [first.due_at] * count,
            visibilities_seconds=None if sent.visibility_timeout is None else [sent.visibility_timeout] * count,
        )
    return Calls(
        ids=ids,
        names=[kind.envelope_template.name for kind in kinds],
        queues=[kind.envelope_template.queue for kind in kinds],
        priorities=[kind.envelope_template.priority for kind in kinds],
        bodies=[f"{FRONT}{id}{k.middle}{args}{k.tail}" for id, k, args in zip(ids, kinds, lines, strict=True)],
        dues_at=[kind.due_at for kind in kinds],
        visibilities_seconds=[kind.envelope_template.visibility_timeout for kind in kinds],
    )


def _called(good: Sequence[tuple[CallTemplate, Envelope]]) -> Calls | None:
    if not good:
        return None
    sent = [envelope for _, envelope in good]
    return Calls(
        ids=[each.id for each in sent],
        names=[each.name for each in sent],
        queues=[each.queue for each in sent],
        priorities=[each.priority for each in sent],
        bodies=[envelopes.encode(each).decode() for each in sent],
        dues_at=[None if each.not_before is None else each.not_before.timestamp() for each in sent],
        visibilities_seconds=[each.visibility_timeout for each in sent],
        metas=[msgspec.json.encode(each.meta).decode() if each.meta else None for each in sent],
    )


def _hashable(value: Any) -> Any:
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


_encoder = msgspec.json.Encoder()
