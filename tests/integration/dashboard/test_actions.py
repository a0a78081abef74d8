"""What operators do has the effect that they expect, and is written down."""

from pathlib import Path

from stem import Stem
from stem.core.lifecycle import State
from stem.observe.dead_letters import letters
from stem.observe.event_log import operator_actions
from support.builders import a_push
from support.until import until
from support.web.dashboards import ServedDashboard, furnish
from support.workers.processes import worker_process


def state(app: Stem, task_id: str) -> State:
    return app.store.results.get([task_id])[task_id].state


def test_a_dead_letter_is_retried_and_the_audit_says_who_did_it(app: Stem, board: ServedDashboard) -> None:
    furnish(app)
    answer = board.post("/tasks/t-failed/retry")
    assert answer.status == 200 and "Queued again" in answer.words
    assert answer.headers["hx-trigger"] == "stemChanged"
    assert state(app, "t-failed") is State.QUEUED
    (event,) = operator_actions(app.store)
    assert (event.data["who"], event.data["what"], event.data["on"]) == ("local", "retry", "t-failed")
    assert "retry" in board.get("/audit").words
    again = board.post("/tasks/t-failed/retry")
    assert again.status == 404 and "no dead letter" in again.words


def test_a_task_runs_again_with_other_arguments_and_names_the_one_it_repeats(app: Stem, board: ServedDashboard) -> None:
    furnish(app)
    answer = board.post("/tasks/t-failed/run-again", {"arguments": '{"note": "edited"}'})
    assert answer.status == 200, answer.words
    (waiting,) = [
        each
        for each in app.store.broker.peek("default", limit=50)
        if each.id not in ("t-queued", "t-retried", "t-delayed")
    ]
    assert b'"note":"edited"' in waiting.body and b'"replayOf":"t-failed"' in waiting.body
    assert waiting.id in board.get("/tasks/t-failed").text
    assert board.post("/tasks/t-failed/run-again", {"arguments": "[1"}).status == 400


def test_a_waiting_task_is_revoked(app: Stem, board: ServedDashboard) -> None:
    furnish(app)
    app.store.heartbeats.forget("w1")
    assert "It is cancelled" in board.post("/tasks/t-queued/revoke").words
    assert state(app, "t-queued") is State.CANCELLED


def test_a_queue_is_paused_resumed_and_purged_after_a_confirmation(app: Stem, board: ServedDashboard) -> None:
    app.store.broker.push([a_push(f"t{i}", queue="mail") for i in range(3)])
    assert "mail is paused" in board.post("/queues/mail/pause").words
    assert "paused" in board.get("/queues/mail").words
    assert "mail goes on" in board.post("/queues/mail/resume").words
    asked = board.post("/queues/mail/purge")
    assert "Cancel everything that waits in mail?" in asked.words
    assert app.store.broker.depth(["mail"])["mail"].ready == 3
    assert "Cancelled 3" in board.post("/queues/mail/purge", {"confirmed": "yes"}).words
    assert app.store.broker.depth(["mail"])["mail"].ready == 0


def test_bulk_replay_replays_exactly_what_was_counted(app: Stem, board: ServedDashboard) -> None:
    from support.builders import dead

    for i, name in enumerate(["shop.pay"] * 3 + ["shop.mail"] * 2):
        app.store.broker.push([a_push(f"t{i}", name=name)])
        (delivery,) = app.store.broker.claim(["default"], limit=1, lease_seconds=60)
        app.store.broker.settle([dead(delivery)], worker="w")
    asked = board.get("/tasks/bulk?verb=replay&name=shop.pay")
    assert "Replay 3 tasks?" in asked.words
    form = {"verb": "replay", "name": "shop.pay", "expected": "2"}
    assert board.post("/tasks/bulk", form).status == 400
    assert app.store.broker.depth(["default"])["default"].dead == 5
    assert "Replayed 3 of 3" in board.post("/tasks/bulk", {**form, "expected": "3"}).words
    left = {letter_id for group in letters(app.store).groups for letter_id in group.ids}
    assert left == {"t3", "t4"}


def test_a_group_of_dead_letters_is_replayed_and_another_purged(app: Stem, board: ServedDashboard) -> None:
    from stem.core.record import TaskError
    from support.builders import dead

    for i, message in enumerate(["order 1", "order 2", "no stock"]):
        app.store.broker.push([a_push(f"t{i}")])
        (delivery,) = app.store.broker.claim(["default"], limit=1, lease_seconds=60)
        app.store.broker.settle([dead(delivery, error=TaskError("E", message))], worker="w")
    orders, stock = letters(app.store).groups
    assert board.get(f"/dead-letters/{orders.fingerprint}").status == 200
    assert "Replayed 2" in board.post(f"/dead-letters/{orders.fingerprint}/replay").words
    assert "for good?" in board.post(f"/dead-letters/{stock.fingerprint}/purge").words
    assert "Deleted 1" in board.post(f"/dead-letters/{stock.fingerprint}/purge", {"confirmed": "yes"}).words
    assert letters(app.store).count == 0


def test_a_schedule_is_disabled_enabled_and_run_now(app: Stem, board: ServedDashboard) -> None:
    furnish(app)
    assert board.post("/schedules/nightly/disable").status == 200
    assert "disabled" in board.get("/schedules").words
    assert board.post("/schedules/nightly/enable").status == 200
    ran = board.post("/schedules/nightly/run")
    assert "enqueued once" in ran.words
    found = app.store.schedules.get("nightly")
    assert found is not None and found.entry.is_enabled and found.entry.note == "by local"


def test_a_worker_says_which_task_each_isolate_runs(app: Stem, board: ServedDashboard, tmp_path: Path) -> None:
    url, namespace = app.settings.broker_url, app.settings.namespace
    with worker_process(url, namespace, "support.worker_apps.plain:app", tmp_path, name="w1", concurrency=2):
        task = app.enqueue("hold", {"file": str(tmp_path / "m"), "until": str(tmp_path / "never")}, check=False)
        until(lambda: state(app, task.id) is State.RUNNING)
        (isolate,) = [
            each for each in app.control.stats(workers=["w1"]).replies["w1"].payload["isolateStates"] if each["running"]
        ]
        assert [run["id"] for run in isolate["running"]] == [task.id] and isolate["state"] == "busy"
        (active,) = app.control.inspect(workers=["w1"]).replies["w1"].payload["tasks"]
        assert active["isolate"] == isolate["pid"]
        shown = board.get("/workers/w1")
        assert f"{isolate['pid']} running hold" in shown.words and task.id[-12:] in shown.text


def test_a_real_worker_answers_and_stops_the_task_that_is_terminated(
    app: Stem, board: ServedDashboard, tmp_path: Path
) -> None:
    url, namespace = app.settings.broker_url, app.settings.namespace
    with worker_process(
        url, namespace, "support.worker_apps.plain:app", tmp_path, name="w1", concurrency=1, heartbeat_seconds=0.5
    ):
        task = app.enqueue("hold", {"file": str(tmp_path / "m"), "until": str(tmp_path / "never")}, check=False)
        until(lambda: state(app, task.id) is State.RUNNING)
        until(lambda: "w1" in board.get("/workers").text)
        assert task.id[-12:] in board.get("/workers/w1").text
        assert "w1 answered in" in board.post("/workers/w1/ping").words
        assert (
            "1 of 1 worker has confirmed it"
            in board.post("/workers/w1/autoscale", {"enabled": "on", "min": "1", "max": "2"}).words
        )
        assert board.post("/workers/w1/pause").status == 200
        until(lambda: "paused" in board.get("/workers/w1").words)
        assert board.post("/workers/w1/resume").status == 200
        assert board.post(f"/tasks/{task.id}/terminate").status == 200
        until(lambda: state(app, task.id) is State.CANCELLED)
        assert board.post("/workers/w1/recycle").status == 200
        assert "Shut down w1 (hard)?" in board.post("/workers/w1/shutdown", {"mode": "hard"}).words
        assert board.post("/workers/w1/shutdown", {"mode": "hard", "confirmed": "yes"}).status == 200
        until(lambda: "No worker is running" in board.get("/workers").words)
