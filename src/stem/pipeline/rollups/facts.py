"""The input of rollups: events and attempts of a batch, each with its minute and key, as columns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.histogram import GROWTH, NOTHING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

KEYS = ("minute", "name", "queue", "worker", "tenant")
MINUTE = 60_000_000  # in microseconds
_LONGEST = 7 * 24 * 60  # minutes; a start of a wrong clock must not make a million rows


class _Move(msgspec.Struct, rename={"start": "from", "end": "to"}):
    start: int = 0
    end: int = 0


_move = msgspec.json.Decoder(_Move).decode


@dataclass(frozen=True, slots=True)
class Facts:
    """One row per fact. Events have `kind`, attempts have `outcome` and seconds; elsewhere they are empty or NaN."""

    keys: "pa.Table"
    kind: "np.ndarray[Any, Any]"
    outcome: "np.ndarray[Any, Any]"
    move: "np.ndarray[Any, Any]"  # of a worker that was scaled: 1 up, -1 down
    wait_seconds: "np.ndarray[Any, Any]"
    run_seconds: "np.ndarray[Any, Any]"
    busy_seconds: "np.ndarray[Any, Any]"


def facts(events: "pa.Table", attempts: "pa.Table") -> Facts:
    """Busy seconds count in the minutes in which the attempt ran."""
    import numpy as np
    import pyarrow as pa

    worked = _worked(attempts)
    no_seconds = np.full(len(events) + len(worked), np.nan)
    return Facts(
        keys=pa.concat_tables([_keys(events, "at"), _keys(attempts, "finished_at"), worked.select(KEYS)]),
        kind=_words(events["kind"], after=len(attempts) + len(worked)),
        outcome=_words(attempts["outcome"], before=len(events), after=len(worked)),
        move=np.concatenate([_moves(events), np.zeros(len(attempts) + len(worked), np.int8)]),
        wait_seconds=_among(attempts["wait_seconds"], no_seconds, len(events)),
        run_seconds=_among(attempts["run_seconds"], no_seconds, len(events)),
        busy_seconds=np.concatenate(
            [no_seconds[: len(events)], np.full(len(attempts), np.nan), _numbers(worked["busy"])]
        ),
    )


def buckets(seconds: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """The buckets of `core.histogram`."""
    import numpy as np

    is_some = seconds >= 1e-6
    logs = np.log(np.where(is_some, seconds, 1.0)) / np.log(GROWTH)
    return np.where(is_some, np.ceil(logs), NOTHING).astype(np.int32)


def _keys(rows: "pa.Table", moment: str) -> "pa.Table":
    import pyarrow as pa

    micros = rows[moment].cast(pa.int64()).to_numpy()
    return pa.table([_minutes(micros // MINUTE), *(rows[name] for name in KEYS[1:])], names=KEYS)


def _worked(attempts: "pa.Table") -> "pa.Table":
    """One row per attempt and minute in which it ran, with the seconds."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    ran = attempts.filter(pc.is_valid(attempts["started_at"]))
    start, end = (ran[name].cast(pa.int64()).to_numpy() for name in ("started_at", "finished_at"))
    start = np.maximum(np.minimum(start, end), end - _LONGEST * MINUTE)
    first, last = start // MINUTE, end // MINUTE
    spans = last - first + 1
    rows = np.repeat(np.arange(len(spans)), spans)
    minute = np.arange(len(rows)) - np.repeat(np.cumsum(spans) - spans, spans) + first[rows]
    busy = np.minimum(end[rows], (minute + 1) * MINUTE) - np.maximum(start[rows], minute * MINUTE)
    keys = [ran[name].take(pa.array(rows)) for name in KEYS[1:]]
    return pa.table([_minutes(minute), *keys, pa.array(busy / 1e6)], names=[*KEYS, "busy"])


def _minutes(numbers: "np.ndarray[Any, Any]") -> "pa.Array":
    import pyarrow as pa

    return pa.array(numbers * MINUTE, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def _moves(events: "pa.Table") -> "np.ndarray[Any, Any]":
    import numpy as np
    import pyarrow.compute as pc

    moves = np.zeros(len(events), np.int8)
    for row in pc.indices_nonzero(pc.equal(events["kind"], "worker-scaled")).to_pylist():
        scaled = _move(events["data"][row].as_py())
        moves[row] = np.sign(scaled.end - scaled.start)
    return moves


def _words(column: "pa.ChunkedArray", *, before: int = 0, after: int = 0) -> "np.ndarray[Any, Any]":
    """A text column as numpy, by way of a dictionary, because it has few different values."""
    import numpy as np

    if not len(column):
        return np.full(before + after, "", "U16")
    coded = column.combine_chunks().dictionary_encode()
    words = np.array(coded.dictionary.to_pylist(), "U16")[coded.indices.to_numpy()]
    return np.concatenate([np.full(before, "", "U16"), words, np.full(after, "", "U16")])


def _numbers(column: "pa.ChunkedArray") -> "np.ndarray[Any, Any]":
    import numpy as np

    return np.asarray(column.to_numpy(), np.float64)


def _among(column: "pa.ChunkedArray", others: "np.ndarray[Any, Any]", before: int) -> "np.ndarray[Any, Any]":
    import numpy as np

    return np.concatenate([others[:before], _numbers(column), others[before:]])
