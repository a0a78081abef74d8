"""What an entry does while its run before has not ended, with real tasks in their states."""

from datetime import timedelta

import msgspec
import pytest

from stem import Stem
from stem.core.lifecycle import State
from stem.scheduler.beat import Beat
from support.builders import done
from support.client.schedules import due, now, stored, tasks
from support.until import until


def due_again(app: Stem) -> None:
    """Let the entry's next instant come."""
    found = stored(app)
    assert found.state.instant is not None
    moment = now(app) - timedelta(seconds=1)
    state = msgspec.structs.replace(found.state, instant=moment, due_at=moment)
    assert app.store.schedules.write(found.entry, state, revision=found.revision)


@pytest.mark.parametrize(("overlap", "count"), [("allow", 2), ("skip", 1), ("buffer-one", 1), ("cancel-other", 2)])
def test_case_29_a_run_that_is_due_while_the_one_before_waits_or_runs(app: Stem, overlap: str, count: int) -> None:
    due(app, overlap=overlap)
    beat = Beat(app, "a")
    assert beat.tick() == 1
    due_again(app)
    beat.tick()
    assert len(tasks(app)) == count
    states = sorted(record.state for record in app.store.results.get(tasks(app)).values())
    assert (
        states
        == {
            "allow": [State.QUEUED, State.QUEUED],
            "skip": [State.QUEUED],
            "buffer-one": [State.QUEUED],
            "cancel-other": [State.CANCELLED, State.QUEUED],
        }[overlap]
    )
    assert (stored(app).state.history[-1].reason == "the run before has not ended") == (overlap == "skip")


def test_case_29_one_run_is_buffered_and_runs_when_the_one_before_has_ended(app: Stem) -> None:
    due(app, overlap="buffer-one")
    beat = Beat(app, "a")
    beat.tick()
    for _ in range(3):
        due_again(app)
        assert beat.tick() == 0
    (delivery,) = app.store.broker.claim(["default"], limit=5, lease_seconds=60)
    app.store.broker.settle([done(delivery)], worker="w")
    until(lambda: beat.tick() == 1)
    assert len(tasks(app)) == 2
    assert beat.tick() == 0
