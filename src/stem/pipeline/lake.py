"""The lake: bronze events, silver attempts, gold rollups, and a page that says whose it is."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stem.core.errors import LakeRefused
from stem.pipeline import shapes, storage
from stem.pipeline.delta import Table
from stem.pipeline.rollups import gold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Grows when an older Stem could no longer write, or would misread, what a newer one wrote. 1: how far it had read stood in a
# checkpoint of Spark's; 2: it stands in the log of bronze.
SCHEMA = 2
_PAGE = "stem.json"


@dataclass(frozen=True, slots=True)
class Lake:
    """`id` names the one pipeline that fills it: batches are numbered under it."""

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
    def last_batch(self) -> int | None:
        return self.events.last_batch(self.id)

    @property
    def position(self) -> str | None:
        """The offset of the last event that bronze has; None before the first. Raises LakeRefused."""
        if (last := self.last_batch) is None:
            return None
        told = self.events.position(self.id)
        return (self._checkpointed(last) if told is None else told) or None

    def _checkpointed(self, batch: int) -> str:
        """Where Spark wrote it down, in lakes of schema 1: a version, a line of its own, an offset."""
        path = f"{self.root}/checkpoint/offsets/{batch}"
        if (page := storage.get(path)) is None:
            raise LakeRefused(
                f"The lake at {self.root} has lost its checkpoint, and events would be counted twice; restore {path}, or "
                "begin another lake with --lake."
            )
        return str(json.loads(page.splitlines()[-1])["offset"])

    def show(self, spark: "SparkSession") -> None:
        """The views that queries name: events, attempts, rollups (a row a minute and key), partials (as written)."""
        for name, table in (("events", self.events), ("attempts", self.attempts)):
            rows = table.frame(spark).drop("date")
            aliases = {alias: rows[column] for alias, column in shapes.ALIASES[name].items()}
            rows.withColumns(aliases).createOrReplaceTempView(name)
        partials = self.rollups.frame(spark).drop("date")
        partials.createOrReplaceTempView("partials")
        gold.over(partials, *gold.KEYS).createOrReplaceTempView("rollups")


def opened(root: str) -> Lake:
    """For reading. Raises LakeRefused: absent, damaged, or written by a newer Stem."""
    lake = found(root)
    if lake is None:
        raise LakeRefused(
            f"There is no lake at {_absolute(root)}; fill one with 'stem pipeline run --once', or name it with --lake."
        )
    return lake


def found(root: str) -> Lake | None:
    """For a look at one that may not be there yet. Raises LakeRefused."""
    root = _absolute(root)
    page = _page(root)
    return None if page is None else _lake(root, page)


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
    if page["schema"] != SCHEMA:
        _write_page(root, {**page, "schema": SCHEMA})  # an older Stem would not see how far this one has read
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
    try:
        if (text := _stored_page(root)) is None:
            return None
        page = json.loads(text)
        schema, _, _ = int(page["schema"]), page["id"], page["source"]
    except (ValueError, KeyError, TypeError) as error:
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


def _stored_page(root: str) -> bytes | None:
    try:
        return storage.get(f"{root}/{_PAGE}")
    except OSError as error:
        raise LakeRefused(
            f"The lake at {root} cannot be reached ({storage.reason(error)}); check the address, and that you may read there."
        ) from error


def _new_page(root: str, source: str) -> dict[str, object]:
    """Its id is the table's: of two that begin a lake at the same moment only one creates that."""
    events = _lake(root, {"id": "", "source": source}).events
    try:
        events.create()
        page: dict[str, object] = {"schema": SCHEMA, "id": events.id.replace("-", ""), "source": source}
        _write_page(root, page)
    except (OSError, LakeRefused) as error:
        cause = error.__cause__ if isinstance(error, LakeRefused) else error
        raise LakeRefused(
            f"No lake can be made at {root} ({storage.reason(cause or error)}); name a place that you may write with --lake."
        ) from error
    return page


def _write_page(root: str, page: dict[str, object]) -> None:
    storage.put(f"{root}/{_PAGE}", json.dumps(page).encode())


def _absolute(root: str) -> str:
    from pathlib import Path

    return storage.checked(root).rstrip("/") if storage.is_remote(root) else str(Path(root).absolute())
