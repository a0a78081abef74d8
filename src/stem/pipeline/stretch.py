"""The next stretch of a log: where it ends, and the slices that it is read in."""

from stem.contracts.history import ANY, History, HistoryFilter, Slice

_SMALL = 10_000  # events that are not worth a second Python process


def end_of_next(history: History, after: str | None, *, limit: int, last: str | None) -> str | None:
    """So many events on, but not beyond `last`, if there is a last; `after` itself if nothing follows."""
    upto = history.advance(after, limit=limit)
    return last if last is not None and upto != after and is_beyond(history, upto, last) else upto


def is_beyond(history: History, offset: str | None, last: str) -> bool:
    """Offsets cannot be compared, but there is a stretch from one to another only if it lies before."""
    return bool(history.slices("events", count=1, after=last, upto=offset))


def cut(history: History, after: str | None, upto: str, *, partitions: int, where: HistoryFilter = ANY) -> list[Slice]:
    count = 1 if history.advance(after, limit=_SMALL) == upto else partitions
    return history.slices("events", where, count=count, after=after, upto=upto)
