"""An observer in another process sees every event once and in order, while workers, and it itself, are killed."""

import os
import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stem.core.lifecycle import EventKind, State
from support.observing import ObserverProcess
from support.workers.processes import WorkerProcess, desk, worker_process

TASKS, KILLS = (10_000, 12) if "STEM_CAMPAIGN_SECONDS" in os.environ else (600, 3)
SHORT: dict[str, Any] = {"concurrency": 2, "lease_seconds": 2.0, "heartbeat_seconds": 0.5}


def test_every_event_is_seen_once_and_in_order_under_kills(durable_url: str, namespace: str, tmp_path: Path) -> None:
    url, file = durable_url, tmp_path / "seen"
    with desk(url, namespace) as client, ExitStack() as stack:

        def a_worker() -> WorkerProcess:
            return stack.enter_context(
                worker_process(url, namespace, "support.worker_apps.plain:app", tmp_path, **SHORT)
            )

        workers = [a_worker(), a_worker()]
        observer = ObserverProcess(url, namespace, file)
        stack.callback(lambda: observer.kill())
        echo = client.app.sender("echo", check=False)
        ids = [f"t{number}" for number in range(TASKS)]
        for step in range(KILLS):
            part = ids[step * TASKS // KILLS : (step + 1) * TASKS // KILLS]
            wanted = len(observer.seen) + len(part) // 3
            echo.enqueue_many([echo.options(id=each).item(value=each) for each in part])
            observer.wait_until_seen(wanted)
            workers.pop(random.randrange(2)).kill()
            workers.append(a_worker())
            if step % 2:
                observer.kill()
                observer = ObserverProcess(url, namespace, file)
        for each in ids:
            assert client.ended(each, seconds=120).state is State.SUCCEEDED
        told = [(event.offset, event.task_id or "", event.kind.value) for event in client.events()]
        observer.wait_until_seen(len(told))
        seen = observer.seen[: len(told)]  # a worker that has just started may have added its own
    assert seen == told
    assert len({offset for offset, _, _ in seen}) == len(seen)
    endings = Counter(task for _, task, kind in seen if kind == EventKind.SUCCEEDED.value)
    assert set(endings) == set(ids) and set(endings.values()) == {1}
