"""A task that waits for another keeps its slot; who writes one is told, once per process, and told what to do instead."""

from pathlib import Path

import pytest

from support.workers.processes import desk, worker_process

APP = "support.worker_apps.waiting:app"


@pytest.mark.parametrize("name", ["parent", "parent-async", "parent-inline"])
def test_waiting_inside_a_task_is_warned_of_once_per_process(tmp_path: Path, namespace: str, name: str) -> None:
    url = f"sqlite:///{tmp_path}/stem.db"
    with desk(url, namespace) as client, worker_process(url, namespace, APP, tmp_path, concurrency=3) as worker:
        pids = set()
        for number in range(4):
            value, pid = client.call(name, number=number)
            assert value == number
            pids.add(pid)
        client.call("child", number=1)
        assert worker.stop() == 0
        said = [line for line in worker.text.splitlines() if "task.wait_detected" in line]
        assert len(said) == len(pids) and all(f"name={name}" in line and "get(timeout=30)" in line for line in said)
