"""A revoke against the end of its task, a thousand times: whoever is faster, nobody else is hurt."""

import random
import time
from collections import Counter
from pathlib import Path

from stem.core.lifecycle import State
from stem.core.record import moment
from stem.core.revoke import RevokeRecord
from stem.worker.supervisor import Worker
from support.until import until
from support.workers.processes import desk, worker_here

APP = "support.worker_apps.racing:app"
VICTIMS = 1000
SEED = 20261116


def test_a_thousand_races_of_revoke_against_finish_hurt_no_other_task(tmp_path: Path, namespace: str) -> None:
    chance, file = random.Random(SEED), tmp_path / "bystanders"
    url = f"sqlite:///{tmp_path}/stem.db"
    with desk(url, namespace) as client:
        victims, bystanders = set[str](), dict[str, str]()
        for number in range(VICTIMS):
            name = chance.choice(("willing", "deaf"))
            victims.add(client.send(name, {"max_retries": 0}, seconds=chance.uniform(0.0, 0.06)))
            bystanders[client.send("bystander", file=str(file), text=str(number))] = str(number)
        with worker_here(url, namespace, APP, concurrency=4, grace_seconds=0.04) as worker:
            told = race(worker, victims, chance)
            until(lambda: client.app.store.broker.depth(["default"])["default"].running == 0, seconds=30)
        records = client.app.store.results.get([*victims, *bystanders])
        assert {records[each].state for each in bystanders} == {State.SUCCEEDED}
        runs = Counter(file.read_text().split())
        assert runs == Counter(dict.fromkeys(bystanders.values(), 1)), "each ran once and to its end"
        ends = Counter(records[each].state for each in victims)
        assert set(ends) == {State.SUCCEEDED, State.CANCELLED}, ends
        assert ends[State.CANCELLED] > VICTIMS / 20 and ends[State.SUCCEEDED] > VICTIMS / 20, "races were run both ways"
        assert told["terminating"] > VICTIMS / 4


def race(worker: Worker, victims: set[str], chance: random.Random) -> Counter[str]:
    """Revoke each victim once, some time after it was seen to run; what the worker said."""
    running = worker._running
    assert running is not None
    due: dict[str, float] = {}
    told: Counter[str] = Counter()
    end = time.monotonic() + 90
    while running.services.store.broker.depth(["default"])["default"].ready or running.services.in_flight.by_number:
        assert time.monotonic() < end, "the worker does not get on"
        now = time.monotonic()
        for task, _ in running.services.pool.running:
            if task.lease.id in victims:
                due.setdefault(task.lease.id, now + chance.uniform(0.0, 0.05))
        ready = [task_id for task_id, at in due.items() if at <= now]
        for task_id in ready:
            due[task_id] = float("inf")
        if ready:
            told.update(running.steering.revoke([mark(task_id) for task_id in ready], True, "SIGTERM").values())
    return told


def mark(task_id: str) -> RevokeRecord:
    return RevokeRecord(task_id=task_id, version=0, terminate=True, created_at=moment(0.0))
