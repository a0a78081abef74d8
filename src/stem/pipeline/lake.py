"""The lake: bronze events, silver attempts, gold rollups, the stream's checkpoint, and a page that says whose it is."""

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stem.core.errors import LakeRefused
from stem.pipeline import shapes
from stem.pipeline.delta import Table, file_system
from stem.pipeline.rollups import gold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = 1  # grows when an older Stem could no longer write, or would misread, what a newer one wrote
_PAGE = "stem.json"


@dataclass(frozen=True, slots=True)
class Lake:
    """`id` names the one stream that fills it: batches are numbered under it."""

    root: str
    id: str
    source: str
    events: Table
    attempts: Table
    rollups: Table

    @property
    def tables(self) -> tuple[Table, ...]:
        return self.events, self.attempts, self.rollups

    def day_of(self, table: Table) -> str:
        """The column whose day a row is kept under."""
        return {self.events.root: "at", self.attempts.root: "finished_at", self.rollups.root: "minute"}[table.root]

    @property
    def checkpoint(self) -> str:
        return f"{self.root}/checkpoint"

    @property
    def is_empty(self) -> bool:
        return self.events.last_batch(self.id) is None

    def show(self, spark: "SparkSession") -> None:
        """The views that queries name: events, attempts, rollups (a row a minute and key), partials (as written)."""
        self.events.frame(spark).drop("date").createOrReplaceTempView("events")
        self.attempts.frame(spark).drop("date").createOrReplaceTempView("attempts")
        partials = self.rollups.frame(spark).drop("date")
        partials.createOrReplaceTempView("partials")
        gold.over(partials, *gold.KEYS).createOrReplaceTempView("rollups")


def opened(root: str) -> Lake:
    """For reading. Raises LakeRefused: absent, damaged, or written by a newer Stem."""
    root = _absolute(root)
    page = _page(root)
    if page is None:
        raise LakeRefused(
            f"There is no lake at {root}; fill one with 'stem pipeline run --once', or name it with --lake."
        )
    return _lake(root, page)


def prepared(root: str, source: str) -> Lake:
    """For writing what this source logs; made if absent. Nothing is written to one that is refused. Raises LakeRefused."""
    root = _absolute(root)
    page = _page(root)
    if page is None:
        page = _new_page(root, source)
    lake = _lake(root, page)
    if lake.source != source:
        raise LakeRefused(
            f"The lake at {root} is filled from {lake.source}, and offsets of {source} would mean nothing there; "
            f"name another with --lake, or correct 'source' in its {_PAGE} if the store has only moved."
        )
    for table in lake.tables:
        table.create()
    if not lake.is_empty and not _exists(f"{lake.checkpoint}/metadata"):
        raise LakeRefused(
            f"The lake at {root} has lost its checkpoint, and events would be counted twice; restore {lake.checkpoint}, "
            "or begin another lake with --lake."
        )
    return lake


def _lake(root: str, page: dict[str, object]) -> Lake:
    return Lake(
        root=root,
        id=str(page["id"]),
        source=str(page["source"]),
        events=Table(f"{root}/bronze/events", shapes.EVENTS),
        attempts=Table(f"{root}/silver/attempts", shapes.ATTEMPTS),
        rollups=Table(f"{root}/gold/rollups", gold.SHAPE),
    )


def _page(root: str) -> dict[str, object] | None:
    fs, path = file_system(root)
    if not _exists(f"{root}/{_PAGE}"):
        return None
    try:
        with fs.open_input_stream(f"{path}/{_PAGE}") as stream:
            page = json.loads(stream.read())
        schema, _, _ = int(page["schema"]), page["id"], page["source"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LakeRefused(
            f"{root}/{_PAGE} cannot be read ({error}), so this is no lake that can be used; restore it, or name "
            "another with --lake."
        ) from error
    if schema > SCHEMA:
        raise LakeRefused(
            f"The lake at {root} was written by a newer Stem (schema {schema}, this one knows {SCHEMA}); upgrade Stem, or "
            "name another with --lake."
        )
    return dict(page)


def _new_page(root: str, source: str) -> dict[str, object]:
    fs, path = file_system(root)
    page: dict[str, object] = {"schema": SCHEMA, "id": uuid.uuid4().hex, "source": source}
    try:
        fs.create_dir(path, recursive=True)
        with fs.open_output_stream(f"{path}/{_PAGE}.new") as stream:
            stream.write(json.dumps(page).encode())
        fs.move(f"{path}/{_PAGE}.new", f"{path}/{_PAGE}")
    except OSError as error:
        raise LakeRefused(
            f"No lake can be made at {root} ({error}); name a place that you may write with --lake."
        ) from error
    return page


def _exists(uri: str) -> bool:
    import pyarrow.fs as pafs

    fs, path = file_system(uri)
    try:
        return bool(fs.get_file_info(path).type != pafs.FileType.NotFound)
    except OSError as error:
        raise LakeRefused(f"{uri} cannot be looked at ({error}); name a lake that you may read with --lake.") from error


def _absolute(root: str) -> str:
    from pathlib import Path

    return root.rstrip("/") if "://" in root else str(Path(root).absolute())
