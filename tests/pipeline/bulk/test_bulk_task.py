"""A bulk as a task of real workers: its progress is told, and a revoke ends it on the executors too."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stem.core.revoke import RevokeRequest
from support.until import until
from support.worker_apps.bulk import PATH
from support.workers.processes import desk, worker_process


@pytest.mark.timeout(300)  # a worker that starts a JVM on a busy machine
def test_a_worker_runs_a_bulk_tells_how_far_it_is_and_ends_it_when_it_is_revoked(
    tmp_path: Path, namespace: str
) -> None:
    url, book = f"sqlite:///{tmp_path}/stem.db", tmp_path / "book"
    for name, count, seconds in (("few", 6, 0.0), ("many", 5000, 0.05)):
        rows = {"n": list(range(count)), "book": [f"{book}-{name}"] * count, "seconds": [seconds] * count}
        pq.write_table(pa.table(rows), tmp_path / f"{name}.parquet")
    places: dict[str, dict[str, Any]] = {
        name: {"source": f"{tmp_path}/{name}.parquet", "to": f"{tmp_path}/results"} for name in ("few", "many")
    }
    with worker_process(url, namespace, PATH, tmp_path, concurrency=1), desk(url, namespace) as client:
        told = client.value(client.send("marks.bulk", **places["few"]), seconds=120)
        assert (told["items"], told["failed"]) == (6, 0)
        many = client.send("marks.bulk", **places["many"])
        lines = Path(f"{book}-many")
        until(lambda: lines.exists() and len(lines.read_text().split()) > 20, seconds=120)
        until(lambda: client.record(many).meta.get("progress", {}).get("items") is not None, seconds=60)
        client.app.store.revokes.put([RevokeRequest(task_id=many, terminate=True)])
        ended = client.ended(many, seconds=60)
        written = len(lines.read_text().split())
        assert (ended.state, written < 5000) == ("cancelled", True)
        assert client.value(client.send("marks.bulk", **places["few"], partitions=1), seconds=120)["items"] == 6
        assert len(lines.read_text().split()) == written, "something ran on after the end"
