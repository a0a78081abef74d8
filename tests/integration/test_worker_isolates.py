"""Whatever a task does to its process, it ends in the right state, and the worker goes on."""

from pathlib import Path

from support.working import desk, worker_here, worker_process


def test_a_worker_process_runs_tasks(durable_url: str, namespace: str, tmp_path: Path) -> None:
    with desk(durable_url, namespace) as client:
        with worker_process(durable_url, namespace, "support.worker_apps.plain:app", tmp_path, concurrency=2) as worker:
            assert client.call("echo", value=[1, "ä"]) == [1, "ä"]
            assert worker.stop() == 0


def test_a_worker_here(durable_url: str, namespace: str) -> None:
    with desk(durable_url, namespace) as client:
        with worker_here(durable_url, namespace, "support.worker_apps.plain:app", concurrency=2):
            assert client.call("echo", value=[1, "ä"]) == [1, "ä"]
