"""Python code inspects and controls workers like the command line."""

import asyncio
from pathlib import Path

import pytest

from acceptance.lab import Lab
from stem import Stem, TaskCancelled, UsageError
from stem.core.lifecycle import State
from stem.testing import eager


def test_workers_are_asked_steered_and_stopped(any_lab: Lab) -> None:
    worker = any_lab.start("w1", "--concurrency", "1")
    app = any_lab.desk.app
    control = app.control

    assert list(control.workers()) == ["w1"]
    assert control.ping(timeout=20).health == {"w1": "ok"}
    held = app.handle(any_lab.desk.send("hold"))
    any_lab.began("hold")
    assert control.stats(timeout=20).replies["w1"].payload["inflight"] == 1
    (running,) = control.inspect(task="hold", timeout=20).replies["w1"].payload["tasks"]
    assert running["id"] == held.id
    assert control.inspect(queue="mail", timeout=20).replies["w1"].payload["tasks"] == []

    assert held.revoke(terminate=True, reason="mistaken").records[0].reason == "mistaken"
    with pytest.raises(TaskCancelled, match="mistaken") as cancelled:
        held.get(20)
    assert cancelled.value.record is not None and cancelled.value.record.state is State.CANCELLED

    assert control.pause("mail", timeout=20).scopes == {"mail": "*"}
    assert control.ask("queue-status", timeout=20).replies["w1"].payload["queues"]["mail"]["paused"]
    waiting = app.handle(any_lab.desk.send("mail", {"queue": "mail"}))
    any_lab.desk.call("quick")  # what came after it has run
    assert waiting.status().state is State.QUEUED
    assert control.resume("mail", timeout=20).scopes == {"mail": ""}
    waiting.get(20)

    assert control.shutdown(timeout=20).replies["w1"].payload["mode"] == "warm"
    assert worker.process.wait(30) == 0


def test_a_revoke_holds_with_no_worker_there_and_can_be_awaited(any_lab: Lab) -> None:
    app = any_lab.desk.app
    first, second = app.handle(any_lab.desk.send("quick")), app.handle(any_lab.desk.send("quick"))

    async def revoke() -> None:
        assert (await first.arevoke()).answers is None
        assert (await app.control.arevoke(second.id, reason="late")).records[0].task_id == second.id
        assert (await app.control.aping()).replies == {}

    asyncio.run(revoke())
    any_lab.start()
    assert {first.wait(20).state, second.wait(20).state} == {State.CANCELLED}
    assert any_lab.runs == []


def test_revokes_are_written_where_the_settings_say(tmp_path: Path) -> None:
    from stem.core.settings.app import Settings

    url = f"sqlite:///{tmp_path}/stem.db"
    with Stem(settings=Settings(broker_url=url, revokes_url=f"file://{tmp_path}/revokes.stem")) as app:
        handle = app.enqueue("work", check=False)
        handle.revoke()
        assert app.store.revokes.get([handle.id]) == {}
        assert handle.id in (tmp_path / "revokes.stem").read_text()
        with eager(app):
            inside = app.enqueue("work", check=False, delay=60)
            inside.revoke()
            assert inside.id in app.store.revokes.get([inside.id])


def test_nothing_named_is_refused() -> None:
    control = Stem("memory://nothing-named").control
    with pytest.raises(UsageError, match="give at least one id"):
        control.revoke()
    with pytest.raises(UsageError, match="give at least one"):
        control.pause()
    with pytest.raises(UsageError, match="There is no signal 'SIGNAL' to end a task by; use one of SIGTERM"):
        control.revoke("a", terminate=True, signal="SIGNAL")
