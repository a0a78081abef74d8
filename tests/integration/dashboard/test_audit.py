"""The audit says what was done, to what, and what was not."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import url_of
from stem import Stem
from stem.observe.event_log import operator_actions
from support.web.dashboards import ServedDashboard, furnish, served


@pytest.fixture
def app(request: pytest.FixtureRequest, tmp_path: Path, namespace: str) -> Iterator[Stem]:
    with Stem(url_of("sqlite", request, tmp_path), namespace=namespace) as made:
        yield made


@pytest.fixture
def board(app: Stem) -> Iterator[ServedDashboard]:
    with served(app) as found:
        yield found


def test_a_line_break_in_an_address_begins_no_line_of_the_log(
    board: ServedDashboard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "stem.dashboard")
    board.post("/workers/w%0aoperator.acted%20who=eve/ping")
    (line,) = [each.getMessage() for each in caplog.records if each.getMessage().startswith("operator.acted")]
    assert "\n" not in line and "on=w\\noperator.acted who=eve" in line and "from=127.0.0.1" in line


def test_a_bulk_action_is_written_down_with_its_verb_and_filters(app: Stem, board: ServedDashboard) -> None:
    furnish(app)
    board.post("/tasks/bulk", {"verb": "replay", "name": "shop.pay", "queue": "", "expected": "1"})
    (event,) = operator_actions(app.store)
    assert event.data["on"] == "verb=replay name=shop.pay expected=1"
    assert event.data["result"] == "Replayed 1 of 1."


def test_a_task_that_was_run_again_is_written_down_with_the_new_id(app: Stem, board: ServedDashboard) -> None:
    furnish(app)
    before = {each.id for each in app.store.broker.peek("default", limit=50)}
    board.post("/tasks/t-failed/run-again", {"arguments": "{}"})
    (new,) = {each.id for each in app.store.broker.peek("default", limit=50)} - before
    (event,) = operator_actions(app.store)
    assert event.data["on"] == "t-failed" and new in event.data["result"]


@pytest.mark.parametrize("action", ["ping", "pause", "resume", "autoscale", "recycle", "shutdown"])
def test_what_is_asked_of_an_unknown_worker_is_not_reported_as_done(
    app: Stem, board: ServedDashboard, action: str
) -> None:
    answer = board.post(f"/workers/nobody/{action}", {"confirmed": "yes"})
    assert (
        answer.status == 404 and "o worker nobody is known" in answer.words and 'class="notice failed"' in answer.text
    )
    (event,) = operator_actions(app.store)
    assert event.data["result"].startswith("refused: ") and "nobody is known" in event.data["result"]


def test_a_worker_that_does_not_confirm_has_not_done_it(app: Stem, board: ServedDashboard) -> None:
    furnish(app)  # with the heartbeat of a worker that does not run
    answer = board.post("/workers/w1/recycle")
    assert answer.status == 409 and "Not done:" in answer.words and 'class="notice failed"' in answer.text
    (event,) = operator_actions(app.store)
    assert event.data["result"].startswith("Not done:")
