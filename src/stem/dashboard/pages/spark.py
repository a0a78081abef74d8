"""The data pipeline: how fresh the lake is, or what to do to have one."""

from typing import Any

from stem.core.errors import StemError
from stem.dashboard.handling import PageRequest


def spark_page(ask: PageRequest) -> dict[str, Any]:
    lake = ask.desk.lake
    shown: dict[str, Any] = {"title": "Spark", "lake": lake, "state": None, "problem": ""}
    if lake is None:
        return shown
    try:
        return {**shown, "state": _state(ask, lake)}
    except ImportError:
        return {**shown, "problem": "The lake cannot be read here; install the extra: pip install 'stem-tasks[spark]'"}
    except StemError as error:
        return {**shown, "problem": str(error)}


def _state(ask: PageRequest, lake: str) -> dict[str, Any]:
    from stem.pipeline.lake.gaps import gaps_of
    from stem.pipeline.lake.lake import open_lake

    opened = open_lake(lake)
    position, head = opened.position, ask.store.events.head()
    return {
        "root": opened.root,
        "source": opened.source,
        "batch": opened.last_batch,
        "is_current": position == head,
        "missed": None if position is None else ask.store.history.missed(position),
        "gaps": [str(gap) for gap in gaps_of(opened)],
        "tables": [{"name": table.root.rstrip("/").rpartition("/")[2], **_size(table)} for table in opened.tables],
    }


def _size(table: Any) -> dict[str, Any]:
    files = list(table.files())
    return {"files": len(files), "days": len({file.date for file in files})}
