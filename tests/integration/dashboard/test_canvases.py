"""Canvases, durable steps and prerequisites on the dashboard."""

import re

import msgspec
import pytest

from stem import Stem
from stem.client.run.steps import WAIT
from stem.core.delivery import Ending
from stem.core.lifecycle import State
from stem.core.outcome import Requeue
from stem.observe.event_log import operator_actions
from support.builders import a_push
from support.client.canvases import settle_all, submitted
from support.web.dashboards import ServedDashboard


def id_of(app: Stem, name: str) -> str:
    from stem.core.record import TaskFilter

    (found,) = app.store.results.page(TaskFilter(name=name), limit=10).items
    return found.id


def waiting_for(app: Stem, event: str) -> str:
    """A task with one step that waits for an event."""
    app.store.broker.push([a_push("t-waits", name="shop.order")])
    (delivery,) = app.store.broker.claim(["default"], limit=1, lease_seconds=60)
    lease, until = delivery.lease, app.store.upkeep.now() + 3600
    assert app.store.steps.record(lease, "reserve stock", msgspec.Raw(b'{"items":3}'))
    assert app.store.steps.record(lease, f"{WAIT}{event}", msgspec.Raw(msgspec.json.encode(until)))
    app.store.broker.settle([Ending(lease, Requeue(3600.0, "waiting", event=event), 0.1)], worker="w1")
    return "t-waits"


def test_a_failed_canvas_shows_what_failed_first_and_goes_on_when_it_is_resumed(
    app: Stem, board: ServedDashboard
) -> None:
    handle = submitted(app, "fetch", ["clean", "check"], "report", name="nightly")
    settle_all(app, failing=["check"], message="3 rows too few")
    listed = board.get("/canvases").words
    assert "nightly" in listed and "failed" in listed and "2 of 4" in listed and "check: ValueError" in listed
    shown = board.get(f"/canvases/{handle.id}")
    assert "1 task has failed" in shown.words and "ValueError: 3 rows too few" in shown.words
    assert shown.words.index("3 rows too few") < shown.words.index("fetch")
    assert f'href="/tasks/{id_of(app, "check")}"' in shown.text
    for tag in ("ul", "li"):
        assert len(re.findall(rf"<{tag}\b", shown.text)) == shown.text.count(f"</{tag}>")
    assert "data-live-part" not in shown.text  # it has ended
    asked = board.post(f"/canvases/{handle.id}/resume")
    assert "Replay all tasks" in asked.words and not list(operator_actions(app.store))
    assert "Replayed 1 task" in board.post(f"/canvases/{handle.id}/resume", {"confirmed": "yes"}).words
    assert [event.data["what"] for event in operator_actions(app.store)] == ["resume canvas"]
    assert "data-live-part" in board.get(f"/canvases/{handle.id}").text
    settle_all(app)
    ended = board.get(f"/canvases/{handle.id}").words
    assert "4 of 4" in ended and "on the critical path" in ended and "have failed" not in ended
    assert "nothing was replayed" in board.post(f"/canvases/{handle.id}/resume", {"confirmed": "yes"}).words


@pytest.mark.parametrize("verb", ["revoke", "terminate"])
def test_a_canvas_is_revoked_after_the_question(app: Stem, board: ServedDashboard, verb: str) -> None:
    handle = submitted(app, "fetch", "report")
    assert "that have not ended" in board.post(f"/canvases/{handle.id}/{verb}").words
    assert handle.status().state is State.QUEUED
    assert "Revoked 2 tasks" in board.post(f"/canvases/{handle.id}/{verb}", {"confirmed": "yes"}).words
    assert handle.status().state is State.CANCELLED
    assert "Terminate" not in board.get(f"/canvases/{handle.id}").words


def test_canvases_are_listed_newest_first_and_paged(app: Stem, board: ServedDashboard) -> None:
    for i in range(27):
        submitted(app, "fetch", "report", name=f"canvas-{i:02}")
    first = board.get("/canvases")
    assert first.words.index("canvas-26") < first.words.index("canvas-02") and "canvas-01" not in first.words
    older = first.text.split('class="pager"><a class="button" href="')[1].split('"')[0]
    assert "canvas-01" in board.get(older.replace("&amp;", "&")).words


def test_a_task_is_no_canvas(app: Stem, board: ServedDashboard) -> None:
    app.store.broker.push([a_push("t")])
    for canvas_id in ("t", "nobody"):
        answer = board.get(f"/canvases/{canvas_id}")
        assert answer.status == 404 and f"There is no canvas {canvas_id} here" in answer.words


def test_a_task_names_its_canvas_its_prerequisites_and_the_first_cause(app: Stem, board: ServedDashboard) -> None:
    handle = submitted(app, "fetch", "report", "send")
    blocked = board.get(f"/tasks/{id_of(app, 'report')}")
    assert "Blocked: 1 of 1 prerequisite has not ended" in blocked.words
    assert f'href="/tasks/{id_of(app, "fetch")}"' in blocked.text and f'href="/canvases/{handle.id}"' in blocked.text
    assert "2 blocked" in board.get("/").words or "3 blocked" in board.get("/").words
    settle_all(app, failing=["fetch"])
    cancelled = board.get(f"/tasks/{id_of(app, 'send')}")
    assert "The first cause is" in cancelled.words and f'href="/tasks/{id_of(app, "fetch")}"' in cancelled.text


def test_a_task_shows_its_steps_and_gets_the_event_that_it_waits_for(app: Stem, board: ServedDashboard) -> None:
    task_id = waiting_for(app, "approved")
    shown = board.get(f"/tasks/{task_id}").words
    assert "reserve stock" in shown and "&#34;items&#34;:3" in shown and "Waits for the event approved" in shown
    form = {"event": "approved", "data": '{"by": "ada"}'}
    assert "Send the event" in board.post(f"/tasks/{task_id}/event", form).words
    assert board.post(f"/tasks/{task_id}/event", {**form, "data": "{", "confirmed": "yes"}).status == 400
    assert board.post(f"/tasks/{task_id}/event", {"confirmed": "yes"}).status == 400
    assert "Sent approved" in board.post(f"/tasks/{task_id}/event", {**form, "confirmed": "yes"}).words
    shown = board.get(f"/tasks/{task_id}").words
    assert "Waits for" not in shown and "&#34;by&#34;:&#34;ada&#34;" in shown
    assert settle_all(app) == ["shop.order"]
    ended = board.post(f"/tasks/{task_id}/event", {**form, "confirmed": "yes"})
    assert ended.status == 400 and "has ended" in ended.words
    assert "Send an event" not in board.get(f"/tasks/{task_id}").words
