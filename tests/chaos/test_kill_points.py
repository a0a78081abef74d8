"""A process killed with SIGKILL between any two store operations, or within one: nothing lost, no state stuck."""

import os
import signal
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

from chaos.actor import QUEUES, STEPS, perform
from stem.backends import connect
from stem.contracts.store import Store
from stem.core.settings.app import Settings
from support.stores.draining import drain_and_check
from support.stores.snapshot import snapshot
from support.until import until

ACTOR = Path(__file__).with_name("actor.py")
_models = count(1)
WRITES_MUCH = ("push-batch", "settle-follow-up", "settle-mixed", "push-graph", "cancel-graph", "replay", "purge")


@pytest.mark.parametrize("step", STEPS)
def test_killed_after_a_step_everything_before_it_stands(
    durable_store: Store, durable_url: str, namespace: str, step: str
) -> None:
    kill(durable_url, namespace, f"after:{step}")
    assert snapshot(durable_store) == model_after(step)
    drain_and_check(durable_store, QUEUES)


@pytest.mark.parametrize("seconds", ["0.0002", "0.001"])
@pytest.mark.parametrize("step", WRITES_MUCH)
def test_killed_within_a_step_it_is_whole_or_not_at_all(
    durable_store: Store, durable_url: str, namespace: str, step: str, seconds: str
) -> None:
    kill(durable_url, namespace, f"during:{step}", seconds)
    names = list(STEPS)
    before, after = model_after(names[names.index(step) - 1]), model_after(step)
    # A server may still be busy with what the dead client asked for.
    until(lambda: snapshot(durable_store) in (before, after), seconds=20, every=0.05)
    drain_and_check(durable_store, QUEUES)


def kill(url: str, namespace: str, *point: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(ACTOR.parent.parent)}
    ended = subprocess.run(
        [sys.executable, str(ACTOR), url, namespace, *point],
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def model_after(step: str) -> dict[str, object]:
    """What the same steps leave in the reference store."""
    model = connect(f"memory://model-{next(_models)}", Settings(namespace="model"))
    perform(model, step)
    return snapshot(model)
