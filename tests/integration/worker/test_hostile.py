"""A task that attacks its worker ends in its state, the pool is whole right after, and no other task waits longer."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stem.core.lifecycle import State
from support.background import takes_less_than
from support.worker_apps.hostile import GARBAGE
from support.workers.processes import Desk, desk, worker_here

APP = "support.worker_apps.hostile:app"
ISOLATES = 2
DIED, TIMED_OUT = "IsolateDied", "HardTimeLimitExceeded"

ATTACKS: list[tuple[str, dict[str, Any], set[str]]] = [
    *(("garbage", {"what": what}, {DIED}) for what in GARBAGE),
    ("flood", {"seconds": 60.0}, {DIED, TIMED_OUT}),  # found out by what it writes, or by its limit: whichever is first
    ("stops-itself", {}, {TIMED_OUT}),
    ("stops-its-group", {}, {TIMED_OUT}),
]


@pytest.fixture
def client(durable_url: str, namespace: str, tmp_path: Path) -> Iterator[Desk]:
    with (
        desk(durable_url, namespace) as opened,
        worker_here(durable_url, namespace, APP, concurrency=ISOLATES) as worker,
    ):
        yield opened
        opened.meet(tmp_path, ISOLATES)
        assert worker._running is not None and worker._running.services.pool.is_alive


@pytest.mark.parametrize(("name", "args", "errors"), ATTACKS)
def test_an_attack_ends_in_its_state_and_delays_nobody(
    client: Desk, name: str, args: dict[str, Any], errors: set[str]
) -> None:
    """One attack for each isolate; behind them those that wait."""

    def innocents_end_after_the_attacks() -> float:
        attacks = [client.send(name, **args) for _ in range(ISOLATES)]
        innocents = [client.send("echo", value=number) for number in range(50)]
        for attack in attacks:
            record = client.ended(attack, seconds=60)
            assert record.state is State.FAILED and record.error is not None and record.error.type in errors
        killed_at = time.monotonic()
        assert [client.value(each, seconds=60) for each in innocents] == list(range(50))
        return time.monotonic() - killed_at

    takes_less_than(2.0, innocents_end_after_the_attacks)


@pytest.mark.parametrize("byte", [0, 127, 255])
def test_nonsense_in_the_shared_memory_harms_only_who_wrote_it(client: Desk, byte: int) -> None:
    """It can neither lift its limits nor hide that it runs."""
    attacks = [client.send("fills-memory", byte=byte) for _ in range(ISOLATES)]
    innocents = [client.send("echo", value=number) for number in range(50)]
    for attack in attacks:
        record = client.ended(attack, seconds=60)
        if record.error is not None and record.error.type == "PermissionError":
            pytest.skip("a task cannot reach the memory here")
        assert record.state is State.FAILED and record.error is not None and record.error.type == DIED
    assert [client.value(each, seconds=60) for each in innocents] == list(range(50))


def test_the_shared_memory_does_not_shrink(client: Desk) -> None:
    said = client.call("shrinks-memory")
    assert said and set(said) == {"PermissionError"}
