"""Find the end of the next range of a log, and cut it into slices."""

from stem.contracts.history import ANY, History, HistoryFilter, Slice

_SMALL = 10_000  # with fewer events, a second Python process does not pay


def end_of_next(history: History, after: str | None, *, limit: int, last: str | None) -> str | None:
    """The offset `limit` events after `after`, but not beyond `last`; `after` itself if nothing follows."""
    upto = history.advance(after, limit=limit)
    return last if last is not None and upto != after and is_beyond(history, upto, last) else upto


def is_beyond(history: History, offset: str | None, last: str) -> bool:
    """Offsets cannot be compared, but there are slices from one to another only if the first comes before."""
    return bool(history.slices("events", count=1, after=last, upto=offset))


def cut(history: History, after: str | None, upto: str, *, partitions: int, where: HistoryFilter = ANY) -> list[Slice]:
    count = 1 if history.advance(after, limit=_SMALL) == upto else partitions
    return history.slices("events", where, count=count, after=after, upto=upto)
