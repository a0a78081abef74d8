"""What is counted: the events of a batch and the attempts that they ended, each under its minute and key, as columns."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.histogram import GROWTH, NOTHING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

KEYS = ("minute", "name", "queue", "worker", "tenant")
MINUTE = 60_000_000  # in microseconds
_LONGEST = 7 * 24 * 60  # minutes; a start that no clock could mean may not make a million rows


class _Move(msgspec.Struct, rename={"start": "from", "end": "to"}):
    start: int = 0
    end: int = 0


_move = msgspec.json.Decoder(_Move).decode


@dataclass(frozen=True, slots=True)
class Facts:
    """One row a fact. `kind` is of events, `outcome` and seconds are of attempts; empty or not a number elsewhere."""

    keys: "pa.Table"
    kind: "np.ndarray[Any, Any]"
    outcome: "np.ndarray[Any, Any]"
    move: "np.ndarray[Any, Any]"  # of a worker that was scaled: 1 up, -1 down
    wait_seconds: "np.ndarray[Any, Any]"
    run_seconds: "np.ndarray[Any, Any]"
    busy_seconds: "np.ndarray[Any, Any]"


def facts(events: "pa.Table", attempts: "pa.Table") -> Facts:
    """Seconds of work count in the minutes in which they were worked."""
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
    """Of `core.histogram`."""
    import numpy as np

    is_some = seconds >= 1e-6
    logs = np.log(np.where(is_some, seconds, 1.0)) / np.log(GROWTH)
    return np.where(is_some, np.ceil(logs), NOTHING).astype(np.int32)


def _keys(rows: "pa.Table", moment: str) -> "pa.Table":
    import pyarrow as pa

    micros = rows[moment].cast(pa.int64()).to_numpy()
    return pa.table([_minutes(micros // MINUTE), *(rows[name] for name in KEYS[1:])], names=KEYS)


def _worked(attempts: "pa.Table") -> "pa.Table":
    """A row for each minute that an attempt ran in, with the seconds that it did."""
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
        told = _move(events["data"][row].as_py())
        moves[row] = np.sign(told.end - told.start)
    return moves


def _words(column: "pa.ChunkedArray", *, before: int = 0, after: int = 0) -> "np.ndarray[Any, Any]":
    """Few different words: as numbers of a dictionary first, for text is slow to compare."""
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
