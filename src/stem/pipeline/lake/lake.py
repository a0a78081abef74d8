"""The lake: bronze events, silver attempts, gold rollups, and a manifest that names its source."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stem.core.errors import LakeRefused
from stem.pipeline import schemas
from stem.pipeline.lake import storage
from stem.pipeline.lake.delta import Table
from stem.pipeline.rollups import gold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Increased when an older Stem could not write, or would misread, what a newer one wrote. 1: the position was in a checkpoint
# of Spark; 2: it is in the log of bronze.
SCHEMA = 2
_MANIFEST = "stem.json"


@dataclass(frozen=True, slots=True)
class Lake:
    """`id` names the one pipeline that fills the lake, and numbers its batches."""

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
        """The column whose day is the row's partition."""
        return {self.events.root: "at", self.attempts.root: "finished_at", self.rollups.root: "minute"}[table.root]

    @property
    def last_batch(self) -> int | None:
        return self.events.last_batch(self.id)

    @property
    def position(self) -> str | None:
        """The offset of the last event in bronze; None before the first. Raises LakeRefused."""
        if (last := self.last_batch) is None:
            return None
        stored = self.events.position(self.id)
        return (self._checkpointed(last) if stored is None else stored) or None

    def _checkpointed(self, batch: int) -> str:
        """The offset in Spark's checkpoint, in lakes of schema 1: a version, a line of Spark's, the offset."""
        path = f"{self.root}/checkpoint/offsets/{batch}"
        if (manifest := storage.get(path)) is None:
            raise LakeRefused(
                f"The lake at {self.root} has lost its checkpoint, and events would be counted twice; restore {path}, or "
                "begin another lake with --lake."
            )
        return str(json.loads(manifest.splitlines()[-1])["offset"])

    def create_views(self, spark: "SparkSession") -> None:
        """Create the views for queries: events, attempts, rollups (one row per minute and key), partials (as written)."""
        for name, table in (("events", self.events), ("attempts", self.attempts)):
            rows = table.frame(spark).drop("date")
            aliases = {alias: rows[column] for alias, column in schemas.ALIASES[name].items()}
            rows.withColumns(aliases).createOrReplaceTempView(name)
        partials = self.rollups.frame(spark).drop("date")
        partials.createOrReplaceTempView("partials")
        gold.over(partials, *gold.KEYS).createOrReplaceTempView("rollups")


def open_lake(root: str) -> Lake:
    """Open a lake for reading. Raises LakeRefused if it is absent, damaged, or written by a newer Stem."""
    lake = find_lake(root)
    if lake is None:
        raise LakeRefused(
            f"There is no lake at {_absolute(root)}; fill one with 'stem pipeline run --once', or name it with --lake."
        )
    return lake


def find_lake(root: str) -> Lake | None:
    """Open a lake for reading; None if there is none. Raises LakeRefused."""
    root = _absolute(root)
    manifest = _manifest(root)
    return None if manifest is None else _lake(root, manifest)


def prepare_lake(root: str, source: str) -> Lake:
    """Open a lake for writing the events of this source; create it if absent. A lake that is refused is not changed. Raises
    LakeRefused."""
    root = _absolute(root)
    manifest = _manifest(root)
    if manifest is None:
        manifest = _new_manifest(root, source)
    lake = _lake(root, manifest)
    if lake.source != source:
        raise LakeRefused(
            f"The lake at {root} is filled from {lake.source}, and offsets of {source} would mean nothing there; "
            f"name another with --lake, or correct 'source' in its {_MANIFEST} if the store has only moved."
        )
    for table in lake.tables:
        table.create()
    if manifest["schema"] != SCHEMA:
        _write_manifest(root, {**manifest, "schema": SCHEMA})  # an older Stem would not find the position
    return lake


def _lake(root: str, manifest: dict[str, object]) -> Lake:
    return Lake(
        root=root,
        id=str(manifest["id"]),
        source=str(manifest["source"]),
        events=Table(f"{root}/bronze/events", schemas.EVENTS),
        attempts=Table(f"{root}/silver/attempts", schemas.ATTEMPTS),
        rollups=Table(f"{root}/gold/rollups", gold.SHAPE),
    )


def _manifest(root: str) -> dict[str, object] | None:
    try:
        if (text := _stored_manifest(root)) is None:
            return None
        manifest = json.loads(text)
        schema, _, _ = int(manifest["schema"]), manifest["id"], manifest["source"]
    except (ValueError, KeyError, TypeError) as error:
        raise LakeRefused(
            f"{root}/{_MANIFEST} cannot be read ({error}), so this is no lake that can be used; restore it, or name "
            "another with --lake."
        ) from error
    if schema > SCHEMA:
        raise LakeRefused(
            f"The lake at {root} was written by a newer Stem (schema {schema}, this one knows {SCHEMA}); upgrade Stem, or "
            "name another with --lake."
        )
    return dict(manifest)


def _stored_manifest(root: str) -> bytes | None:
    try:
        return storage.get(f"{root}/{_MANIFEST}")
    except OSError as error:
        raise LakeRefused(
            f"The lake at {root} cannot be reached ({storage.reason(error)}); check the address, and that you may read there."
        ) from error


def _new_manifest(root: str, source: str) -> dict[str, object]:
    """The id is the table's: of two processes that create a lake at the same time, only one creates the table."""
    events = _lake(root, {"id": "", "source": source}).events
    try:
        events.create()
        manifest: dict[str, object] = {"schema": SCHEMA, "id": events.id.replace("-", ""), "source": source}
        _write_manifest(root, manifest)
    except (OSError, LakeRefused) as error:
        cause = error.__cause__ if isinstance(error, LakeRefused) else error
        raise LakeRefused(
            f"No lake can be made at {root} ({storage.reason(cause or error)}); name a place that you may write with --lake."
        ) from error
    return manifest


def _write_manifest(root: str, manifest: dict[str, object]) -> None:
    storage.put(f"{root}/{_MANIFEST}", json.dumps(manifest).encode())


def _absolute(root: str) -> str:
    from pathlib import Path

    return storage.checked(root).rstrip("/") if storage.is_remote(root) else str(Path(root).absolute())
