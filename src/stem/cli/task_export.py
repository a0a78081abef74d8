"""`stem task export`: write all tasks of a store to one file, a few thousand at a time, without Spark."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from stem.cli.support import printing, times
from stem.cli.support.flags import options
from stem.cli.support.stores import Session, in_session
from stem.core.errors import ConfigError, UsageError
from stem.core.lifecycle import State

if TYPE_CHECKING:
    from stem.contracts.history import HistoryFilter
    from stem.contracts.store import Store

FORMATS = ("parquet", "csv", "jsonl")
MOMENTS = ("enqueued_at", "started_at", "finished_at", "heartbeat_at", "updated_at")
NESTED = ("meta", "payload")  # JSON as text
ROW_GROUP = 100_000

Chunk = dict[str, list[Any]]  # columns, as the table `tasks` of the pipeline has them; moments in microseconds
Chunks = Iterator[Chunk]


@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Write this format.  [default: the ending of --output, else jsonl]",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file, not to stdout.")
@options.state
@options.queue
@options.name
@options.enqueued_since
@click.option("--until", type=times.DURATION_OR_MOMENT, help="Only tasks enqueued before: 1h ago, or an ISO moment.")
@in_session
def export(
    session: Session,
    form: str | None,
    output: Path | None,
    state: str | None,
    queue: str | None,
    name: str | None,
    since: float | datetime | None,
    until: float | datetime | None,
) -> None:
    """Write all tasks to a file, in constant memory.

    Columns are those of the pipeline's table `tasks`. Each task is written as it is when it is read. Texts that a spreadsheet
    would run as a formula begin with ' in CSV.

    \b
    Example: stem task export --since 7d --output tasks.parquet
    """
    from stem.contracts.history import HistoryFilter

    chosen = _format(form, output)
    write = _WRITERS[chosen]
    if chosen == "parquet":
        _check_pyarrow()
    with session.store() as store:
        now = store.upkeep.now()
        where = HistoryFilter(
            state=State(state) if state else None,
            queue=queue,
            name=name,
            since=times.since(since, now),
            until=times.since(until, now),
        )
        with _opened(output, is_text=chosen != "parquet") as stream:
            count = write(_chunks(store, where), stream)
    if output is not None and session.as_json:
        printing.json({"tasks": count, "output": str(output), "format": chosen})
    elif output is not None:
        click.echo(printing.plain(f"{count:,} tasks are in {output}."))


def _format(form: str | None, output: Path | None) -> str:
    ending = "" if output is None else output.suffix.lstrip(".").lower()
    if form is not None:
        return form
    if ending and ending not in FORMATS:
        raise UsageError(f"{output} has no ending that names a format; add --format {', '.join(FORMATS)}.")
    return ending or "jsonl"


def _check_pyarrow() -> None:
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        raise ConfigError("Parquet needs the package pyarrow; pip install pyarrow, or export as csv or jsonl.")


@contextmanager
def _opened(output: Path | None, *, is_text: bool) -> Iterator[BinaryIO]:
    """Open the output. A file gets its name only when it is complete."""
    if output is None:
        if not is_text and sys.stdout.isatty():
            raise UsageError("Parquet is no text for a terminal; name a file with --output.")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as stream:
            yield stream
        part.replace(output)
    except OSError as error:
        raise UsageError(f"{output} cannot be written ({error.strerror}); name another file with --output.") from error
    finally:
        with suppress(OSError):
            part.unlink()


def _chunks(store: "Store", where: "HistoryFilter") -> Chunks:
    from stem.contracts.history import COLUMNS

    names = COLUMNS["tasks"]
    for piece in store.history.slices("tasks", where, count=1):
        for columns in store.history.chunks(piece, names):
            yield _shaped(dict(zip(names, map(list, columns), strict=True)))


def _shaped(stored: Chunk) -> Chunk:
    """Return the columns of the pipeline's table, which has two for an error."""
    import msgspec

    from stem.core.record import TaskError
    from stem.pipeline import schemas

    decode = msgspec.json.Decoder(TaskError).decode
    errors = [None if text is None else decode(text) for text in stored.pop("error")]
    stored["error_type"] = [None if error is None else error.type for error in errors]
    stored["error_message"] = [None if error is None else error.message for error in errors]
    return {name: stored[name] for name in schemas.names(schemas.TASKS)}


def _write_jsonl(chunks: Chunks, stream: BinaryIO) -> int:
    import msgspec

    def raw(text: str | None) -> msgspec.Raw | None:
        return None if text is None else msgspec.Raw(text.encode())

    encoder, count = msgspec.json.Encoder(), 0
    for chunk in _readable(chunks):
        nested = {name: list(map(raw, chunk[name])) for name in NESTED}
        columns = {**chunk, **nested}
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        stream.write(encoder.encode_lines(rows))
        count += len(rows)
    return count


def _write_csv(chunks: Chunks, stream: BinaryIO) -> int:
    import csv
    import io

    from stem.pipeline import schemas

    text = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="", write_through=True)
    writer, count = csv.writer(text, lineterminator="\n"), 0
    writer.writerow(schemas.names(schemas.TASKS))
    for chunk in _readable(chunks):
        rows = list(zip(*(map(harmless, column) for column in chunk.values()), strict=True))
        writer.writerows(rows)
        count += len(rows)
    text.detach()
    return count


def _write_parquet(chunks: Chunks, stream: BinaryIO) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from stem.pipeline import schemas
    from stem.pipeline.schemas import arrow_schema

    schema, count = arrow_schema(schemas.TASKS), 0
    waiting: list[pa.Table] = []

    def array(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(values, pa.int64()).view(kind) if pa.types.is_timestamp(kind) else pa.array(values, kind)

    with pq.ParquetWriter(pa.PythonFile(stream, mode="w"), schema, compression="zstd") as writer:
        for chunk in chunks:
            waiting.append(pa.table([array(chunk[field.name], field.type) for field in schema], schema=schema))
            count += waiting[-1].num_rows
            if sum(table.num_rows for table in waiting) >= ROW_GROUP:
                writer.write_table(pa.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
    return count


def _readable(chunks: Chunks) -> Chunks:
    """Write times as people and other programs read them."""
    for chunk in chunks:
        yield {**chunk, **{name: list(map(_moment, chunk[name])) for name in MOMENTS}}


def _moment(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06}Z"


def harmless(cell: Any) -> Any:
    """Mark a text that a spreadsheet would run as a formula as text. Numbers stay as they are."""
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    with suppress(ValueError):
        float(cell)
        return cell
    return f"'{cell}"


_WRITERS: dict[str, Callable[[Chunks, BinaryIO], int]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "jsonl": _write_jsonl,
}
