"""Producers and consumers killed with SIGKILL at random moments: what was acknowledged ends, and ends once."""

import os
import random
import time
from pathlib import Path

from chaos.roles import QUEUES, consume, produce
from stem.contracts.store import Store
from stem.core.lifecycle import State
from support.background import Errand
from support.stores.draining import drain_and_check

SECONDS = float(os.environ.get("STEM_CAMPAIGN_SECONDS", "3"))
PEOPLE = 2  # of each role


def test_nothing_is_lost_or_doubled_while_processes_are_killed(
    durable_store: Store, durable_url: str, namespace: str, tmp_path: Path
) -> None:
    seed = int(os.environ.get("STEM_CAMPAIGN_SEED") or random.randrange(2**32))
    print(f"STEM_CAMPAIGN_SEED={seed} STEM_CAMPAIGN_SECONDS={SECONDS:g}")
    kills = run_campaign(durable_url, namespace, tmp_path / "acknowledged", seed)
    assert kills > SECONDS, "hardly anyone was killed; the campaign proves nothing"
    acknowledged = (tmp_path / "acknowledged").read_text().splitlines()
    records = {record.id: record for record in drain_and_check(durable_store, QUEUES)}
    assert acknowledged, "nothing was pushed"
    assert set(acknowledged) <= set(records)
    assert {record.state for record in records.values()} == {State.SUCCEEDED}
    assert {id[:-1] for id in records if id.endswith("+")} <= set(records), "a follow-up without its parent"


def run_campaign(url: str, namespace: str, notes: Path, seed: int) -> int:
    """Start everyone, then kill and replace one after the other until the time is up; how many were killed."""
    dice = random.Random(seed)
    people: list[Errand[None]] = []
    hired = 0

    def hire(role: int) -> Errand[None]:
        nonlocal hired
        hired += 1
        work, name = ((produce, f"p{hired}"), (consume, f"c{hired}"))[role % 2]
        return Errand(work, url, namespace, name, dice.randrange(2**32), notes)

    people = [hire(n) for n in range(2 * PEOPLE)]
    end = time.monotonic() + SECONDS
    kills = 0
    # On a machine that is busy with something else it takes longer until anybody has got anything done.
    while time.monotonic() < end or not notes.exists() or not notes.stat().st_size:
        victim = dice.randrange(len(people))
        # Let it live a while: long enough to connect, short enough to die in the middle of something.
        people[victim].process.join(dice.uniform(0.05, 0.25))
        assert people[victim].process.is_alive(), people[victim].result()
        people[victim].kill()
        kills += 1
        people[victim] = hire(victim)
    for person in people:
        person.kill()
    return kills + len(people)
