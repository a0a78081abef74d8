"""Skip revokes that cannot be read: anyone with write access to the store can write anything, and workers must go on."""

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from stem.core.revoke import RevokeRecord
from stem.runtime.summed_log import SummedLog

_Row = TypeVar("_Row")
_summary = SummedLog(logging.getLogger("stem.store"))

# Broken text, rubbish instead of a number, moments that no calendar has, lists in lists without end.
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, ArithmeticError, OSError, RecursionError)


def readable(rows: Iterable[_Row], read: Callable[[_Row], RevokeRecord]) -> list[RevokeRecord]:
    found = []
    for row in rows:
        try:
            record = read(row)
            is_whole = not _is_naive(record)
        except _UNREADABLE:
            is_whole = False
        if is_whole:
            found.append(record)
        else:
            _summary.warning("revokes.unreadable: a revoke or pause in the store cannot be read and is passed over")
    return found


def readable_since(
    version: int,
    limit: int,
    rows_since: Callable[[int, int], list[tuple[Any, ...]]],
    read: Callable[[tuple[Any, ...]], RevokeRecord],
) -> list[RevokeRecord]:
    """As many as that, if there are, however many between them cannot be read. A row begins with its version."""
    found: list[RevokeRecord] = []
    while (wanted := limit - len(found)) > 0:
        rows = rows_since(version, wanted)
        found += readable(rows, read)
        if len(rows) < wanted:
            break
        version = rows[-1][0]
    return found


def _is_naive(record: RevokeRecord) -> bool:
    """A time without a zone cannot be compared with the store's."""
    return record.created_at.tzinfo is None or (record.expires_at is not None and record.expires_at.tzinfo is None)
