"""What a worker promises to whoever enqueues: no state goes back, delays are kept, refusals have a reason, waits end."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from stem import Stem
from stem.core.delivery import DeadFilter
from stem.core.errors import TaskNotFound, WaitTimeout
from stem.core.lifecycle import State
from support.background import in_thread, takes_less_than
from support.builders import a_push
from support.stores.lifecycle_check import walk
from support.stores.snapshot import lives
from support.until import until
from support.workers.fleet import Fleet, a_fleet
from support.workers.processes import environment

IS_CAMPAIGN = "STEM_CAMPAIGN_SECONDS" in os.environ
DELAYED = 1_000_000 if IS_CAMPAIGN else 100_000


@pytest.fixture
def fleet(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Fleet]:
    yield from a_fleet(durable_url, namespace, tmp_path)


def test_a_state_never_goes_back_however_fast_the_worker_is(fleet: Fleet) -> None:
    fleet.start()
    order = [State.QUEUED, State.RUNNING, State.SUCCEEDED]
    for n in range(150):
        (id,) = fleet.push("note", f"t{n}")
        seen = [fleet.record(id).state]
        while seen[-1] is not State.SUCCEEDED:
            seen.append(fleet.record(id).state)
        places = [order.index(state) for state in seen]
        assert places == sorted(places)
    until(lambda: fleet.depth().running == 0)
    for id, events in lives(fleet.store).items():
        assert walk(events) is State.SUCCEEDED, id
    assert set(fleet.ledger.runs().values()) == {1}


def test_delayed_tasks_are_never_early_and_at_most_a_second_late(fleet: Fleet) -> None:
    fleet.start()
    check_lateness(fleet)


def check_lateness(fleet: Fleet) -> None:
    takes_less_than(1.0, lambda: most_late(fleet), tries=3)


def most_late(fleet: Fleet) -> float:
    name = os.urandom(4).hex()
    due: dict[str, float] = {}
    for n in range(40):
        delay = 0.1 + n % 20 * 0.1
        due[f"{name}-{n}"] = time.time() + delay
        fleet.push("note", f"{name}-{n}", options={"delay": delay})
    fleet.ended(list(due))
    begun = {entry.mark: entry.at for entry in fleet.ledger.entries("begin")}
    lateness = [begun[id] - due[id] for id in due]
    print(f"late by {min(lateness):.3f} to {max(lateness):.3f} s")
    assert min(lateness) >= 0
    return max(lateness)


@pytest.mark.timeout(900 if IS_CAMPAIGN else 120)
def test_a_hundred_thousand_delayed_tasks_cost_a_worker_nothing(fleet: Fleet) -> None:
    """A million in a campaign, and the others are as punctual as without them."""
    worker = fleet.start()
    (warm,) = fleet.push("note", "warm")
    fleet.ended([warm])
    before = memory(worker.tree())
    for batch in range(DELAYED // 2000):
        fleet.push_all([a_push(name="note", args={"mark": "never"}, delay=3600.0) for _ in range(2000)])
        if batch % 10 == 9:
            (id,) = fleet.push("note", f"between{batch}")
            fleet.ended([id])
    if IS_CAMPAIGN:
        check_lateness(fleet)
    grown = memory(worker.tree()) - before
    print(f"{DELAYED:,} delayed tasks: {grown / 1024 / 1024:.1f} MB more")
    assert grown < 10 * 1024 * 1024
    assert fleet.depth().delayed == DELAYED
    assert "never" not in fleet.ledger.runs()


def memory(processes: list[psutil.Process]) -> int:
    """Bytes of their own, shared ones not counted."""
    return sum(process.memory_full_info().uss for process in processes)


def test_deploys_repeat_nothing_and_spend_no_attempt(fleet: Fleet) -> None:
    ids: list[str] = []
    left = []
    for round_ in range(3):
        ids += fleet.push("nap", *(f"t{round_}-{n}" for n in range(80)), seconds=0.02)
        begun = len(fleet.ledger.runs())
        worker = fleet.start(is_awaited=False)
        until(lambda: len(fleet.ledger.runs()) > begun + 5, seconds=30)  # noqa: B023 - asked before the next round
        assert worker.stop() == 0
        assert fleet.depth().running == 0
        left.append(len(ids) - len(fleet.ledger.runs()))
    assert any(left), "there was nothing left to interrupt"
    fleet.start()
    records = fleet.ended(ids)
    assert {(record.state, record.attempt) for record in records.values()} == {(State.SUCCEEDED, 0)}
    assert fleet.ledger.runs() == dict.fromkeys(ids, 1)


def test_a_task_cut_off_by_five_hard_stops_still_has_all_its_attempts(fleet: Fleet, tmp_path: Path) -> None:
    (id,) = fleet.push("until-there", "t0", file=str(tmp_path / "go"), options={"max_retries": 0})
    for n in range(1, 6):
        worker = fleet.start()
        until(lambda: fleet.ledger.runs()[id] == n)  # noqa: B023 - asked before the next round
        assert worker.stop(3) == 0
    (tmp_path / "go").touch()
    fleet.start()
    record = fleet.ended([id])[id]
    assert (record.state, record.attempt) == (State.SUCCEEDED, 0)


@pytest.mark.parametrize(
    ("reason", "body"),
    [
        ("unknown-task", {"name": "nobody.knows"}),
        ("invalid-arguments", {"args": {"mark": ["no", "string"]}}),
        ("invalid-arguments", {"args": {"another": "argument"}}),
        ("envelope-unreadable", {"version": 99}),
    ],
)
def test_a_task_that_cannot_run_is_parked_with_the_reason(fleet: Fleet, reason: str, body: dict[str, object]) -> None:
    fleet.start()
    push = a_push("odd", name="note", args={"mark": "odd"})
    changes = {key: msgspec.Raw(json.dumps(value).encode()) if key == "args" else value for key, value in body.items()}
    fleet.push_all([msgspec.structs.replace(push, envelope=msgspec.structs.replace(push.envelope, **changes))])
    assert fleet.ended(["odd"])["odd"].state is State.FAILED
    (letter,) = fleet.store.deadletters.page(DeadFilter(), limit=9).items
    assert (letter.id, letter.reason, letter.attempt) == ("odd", reason, 0)
    assert letter.error is not None and letter.error.message
    assert "odd" not in fleet.ledger.runs()
    (good,) = fleet.push("note", "good")
    assert fleet.ended([good])[good].state is State.SUCCEEDED


def test_an_unsigned_or_forged_envelope_is_parked_where_keys_are_set(
    fleet: Fleet, durable_url: str, namespace: str
) -> None:
    keys, others = (f"k1:hmac-sha256:{text * 6}" for text in ("c2VjcmV0", "b3RoZXIh"))
    fleet.start(variables={"STEM_SIGNING_KEYS": keys})
    fleet.push("note", "unsigned")
    with Stem(durable_url, namespace=namespace, signing_keys=others) as stranger:
        stranger.enqueue("note", {"mark": "forged"}, check=False, id="forged")
    with Stem(durable_url, namespace=namespace, signing_keys=keys) as app:
        assert app.enqueue("note", {"mark": "signed"}, check=False).get(20) == "signed"
    fleet.ended(["unsigned", "forged"])
    letters = fleet.store.deadletters.page(DeadFilter(), limit=9).items
    assert {(letter.id, letter.reason) for letter in letters} == {
        ("unsigned", "signature-invalid"),
        ("forged", "signature-invalid"),
    }
    assert set(fleet.ledger.runs()) == {"signed"}


def test_a_body_that_is_no_json_is_parked_and_nothing_of_it_is_evaluated(fleet: Fleet, tmp_path: Path) -> None:
    """As another language could send it: bytes that Python's pickle would run."""
    pickled = b"cos\nsystem\n(S'touch " + str(tmp_path / "touched").encode() + b"'\ntR."
    push = a_push("poison", name="note")
    fleet.push_all(
        [msgspec.structs.replace(push, envelope=msgspec.structs.replace(push.envelope, args=msgspec.Raw(pickled)))]
    )
    fleet.start()
    assert fleet.ended(["poison"])["poison"].state is State.FAILED
    (letter,) = fleet.store.deadletters.page(DeadFilter(), limit=9).items
    assert (letter.id, letter.reason) == ("poison", "envelope-unreadable")
    assert not (tmp_path / "touched").exists()
    (good,) = fleet.push("note", "good")
    assert fleet.ended([good])[good].state is State.SUCCEEDED
    assert set(fleet.ledger.runs()) == {"good"}


ASK = """
import sys
from stem import Stem
app = Stem()
print(app.handle(sys.argv[1]).get(60))
"""


def test_results_are_waited_for_across_processes(
    fleet: Fleet, durable_url: str, namespace: str, tmp_path: Path
) -> None:
    fleet.start()
    go = tmp_path / "go"
    (id,) = fleet.push("until-there", "t0", file=str(go))
    asking = subprocess.Popen(
        [sys.executable, "-c", ASK, id], env=environment(durable_url, namespace), stdout=subprocess.PIPE, text=True
    )
    with Stem(durable_url, namespace=namespace) as app:
        with pytest.raises(WaitTimeout):
            app.handle(id).get(0.3)
        with pytest.raises(TaskNotFound):
            app.handle("never-enqueued").get(5)
        takes_less_than(1.0, lambda: comes_after(fleet, app, tmp_path))
        go.touch()
        told, _ = asking.communicate(timeout=30)
        assert told.strip() == "t0"


def comes_after(fleet: Fleet, app: Stem, place: Path) -> float:
    """Seconds from the end of a task to the moment at which whoever waits for it has its value."""
    mark = os.urandom(4).hex()
    (id,) = fleet.push("until-there", mark, file=str(place / mark))
    waiting = in_thread(lambda: (app.handle(id).get(20), time.time()))
    (place / mark).touch()
    value, at = waiting.result(30)
    assert value == mark
    return at - next(entry.at for entry in fleet.ledger.entries("end") if entry.mark == mark)
