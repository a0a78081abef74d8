"""The lines of a revoke file: one record per line, as JSON. The records of one put count together or not at all.

    {"namespace":"stem","taskId":"0190…","version":7,"createdAt":"2026-01-31T09:00:00Z","reason":"…","more":1}
    {"namespace":"stem","version":7}

`more` says how many lines of the same put follow; without them, none of it counts. A line with no task says which version
was the highest when the records before it were dropped. A line that is not JSON was torn by a crash, and is passed over.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from stem.core.record import moment
from stem.core.revoke import RevokeRecord

_BEGINNING = b'{"namespace":'


class RevokeLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    namespace: str
    version: int
    task_id: str | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    reason: str = ""
    requester: str = ""
    terminate: bool = False
    signal: str | None = None
    seal: str = ""
    more: int = 0


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RevokeLine).decode


def written(namespace: str, records: Sequence[RevokeRecord]) -> bytes:
    """What one put appends."""
    last = len(records) - 1
    return b"".join(_encode(_line(namespace, record, last - n)) + b"\n" for n, record in enumerate(records))


def highest(namespace: str, version: int) -> bytes:
    return _encode(RevokeLine(namespace=namespace, version=version)) + b"\n"


def puts(content: bytes) -> Iterator[tuple[list[RevokeLine], int]]:
    """Each put that is whole, and the place after it. What comes after the last of them may still be being written."""
    gathered: list[RevokeLine] = []
    start = 0
    while (end := content.find(b"\n", start)) >= 0:
        line = _read(content[start:end])
        start = end + 1
        if line is None or (gathered and not _goes_on(gathered[-1], line)):
            gathered = []  # its writer died in the middle
        if line is not None:
            gathered.append(line)
            if not line.more:
                yield gathered, start
                gathered = []


def record(line: RevokeLine) -> RevokeRecord:
    return RevokeRecord(
        task_id=line.task_id or "",
        version=line.version,
        reason=line.reason,
        requester=line.requester,
        terminate=line.terminate,
        signal=line.signal,
        created_at=line.created_at or moment(0.0),
        expires_at=line.expires_at,
        seal=line.seal,
    )


def rewritten(line: RevokeLine) -> bytes:
    """A record as a put of its own, whatever it was put with."""
    return _encode(msgspec.structs.replace(line, more=0)) + b"\n"


def is_foreign(beginning: bytes) -> bool:
    """True for the beginning of a file that nobody but another program can have written."""
    if not beginning.strip(b"\x00") or beginning.startswith(_BEGINNING[: len(beginning)]):
        return False
    return all(_read(text) is None for text in beginning.split(b"\n"))


def _goes_on(last: RevokeLine, line: RevokeLine) -> bool:
    """Versions tell two puts apart: what a dead writer has begun is not counted, so the next one takes its versions."""
    return (line.namespace, line.version, line.more) == (last.namespace, last.version + 1, last.more - 1)


def _line(namespace: str, record: RevokeRecord, more: int) -> RevokeLine:
    return RevokeLine(
        namespace=namespace,
        version=record.version,
        task_id=record.task_id,
        created_at=record.created_at,
        expires_at=record.expires_at,
        reason=record.reason,
        requester=record.requester,
        terminate=record.terminate,
        signal=record.signal,
        seal=record.seal,
        more=more,
    )


def _read(text: bytes) -> RevokeLine | None:
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
