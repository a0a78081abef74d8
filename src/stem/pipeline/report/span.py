"""Find which part of a period the lake has. Plots and rates use that part."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from stem.pipeline.lake.lake import Lake
from stem.pipeline.lake.scan import Piece
from stem.pipeline.spark.spark_errors import query_error

_MINUTE = timedelta(minutes=1)
_LEEWAY = 0.1  # of a period that may be missing in a comparison


@dataclass(frozen=True, slots=True)
class Span:
    since: datetime
    until: datetime


def span(lake: Lake, since: datetime, until: datetime, task: str | None) -> Span | None:
    """From the first to the last minute in which a task did something; if none did, in which queues were sampled. None if the
    lake has nothing."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    kind = pa.timestamp("us", tz="UTC")
    within = (ds.field("minute") >= pa.scalar(since, kind)) & (ds.field("minute") < pa.scalar(until, kind))
    of_tasks = within & (ds.field("name") != "" if task is None else ds.field("name") == task)
    days = since.astimezone(UTC).date().isoformat(), until.astimezone(UTC).date().isoformat()
    first, last = _ends(lake, *days, of_tasks)
    if first is None and task is None:
        first, last = _ends(lake, *days, within)
    return None if first is None or last is None else Span(first, min(last + _MINUTE, until))


def reaches_back_to(lake: Lake, since: datetime, until: datetime) -> bool:
    """Whether the lake began before this period, or early in it."""
    oldest = min((file.date for file in lake.rollups.files()), default=None)
    if oldest is None:
        return False
    first, _ = _ends(lake, oldest, oldest, None)
    return first is not None and first <= since + (until - since) * _LEEWAY


def _ends(lake: Lake, first_day: str, last_day: str, where: Any) -> tuple[datetime | None, datetime | None]:
    """The first and the last minute in files of these days. Raises LakeRefused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    paths = tuple(file.path for file in lake.rollups.files() if first_day <= file.date <= last_day)
    if not paths:
        return None, None
    try:
        minutes = Piece(lake.rollups, paths).read(("minute",), where)["minute"]
    except (OSError, pa.ArrowInvalid) as error:
        raise query_error(error) from error
    found = pc.min_max(minutes).as_py()
    return found["min"], found["max"]
