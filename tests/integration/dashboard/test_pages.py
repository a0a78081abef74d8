"""Every page, with data and without, whole and in part, at the root and below it."""

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from stem import Stem
from stem.dashboard import dashboard
from stem.dashboard.navigation import NAVIGATION
from support.builders import a_push
from support.web.dashboards import OURS, PAGE, ServedDashboard, furnish, served, serving

PAGES = [item.path for item in NAVIGATION]
DETAILS = [
    "/tasks/t-failed", "/tasks/t-succeeded", "/tasks/t-running", "/tasks/t-queued", "/tasks/t-delayed",
    "/tasks/t-failed/timeline", "/queues/default", "/queues/nobody", "/workers/w1", "/tasks/bulk?verb=replay",
    "/tasks/bulk?verb=revoke&state=queued", "/tasks?state=failed&error=plain", "/tasks?text=plain&since=1h",
    "/tasks?meta=tenant%3Dplain", "/events?kind=failed", "/dead-letters?queue=default", "/?range=7d",
]  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
def test_every_page_says_what_to_do_where_there_is_nothing(board: ServedDashboard, path: str) -> None:
    answer = board.get(path)
    assert answer.status == 200, answer.words
    assert "Traceback" not in answer.text


def test_every_page_shows_what_there_is(app: Stem, board: ServedDashboard) -> None:
    furnish(app)
    for path in [*PAGES, *DETAILS]:
        answer = board.get(path)
        assert answer.status == 200, (path, answer.words)
        part = board.get(path, HX_Request="true")
        assert part.status == 200 and "<html" not in part.text, path
    assert "shop.pay" in board.get("/tasks").text
    assert "At 02:00 every day" in board.get("/schedules").text
    assert "w1" in board.get("/workers").text


def test_a_page_has_its_security_headers_and_no_script_or_style_of_its_own(app: Stem, board: ServedDashboard) -> None:
    furnish(app)
    for path in [*PAGES, *DETAILS, "/nothing"]:
        answer = board.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert " style=" not in answer.text and "<style" not in answer.text and " onclick" not in answer.text
        assert answer.text.count("<script") == answer.text.count("<script src=")


def test_below_a_path_every_link_stays_below_it(app: Stem) -> None:
    furnish(app)
    inner = dashboard(app)
    with serving(Starlette(routes=[Mount("/ops/stem", inner)])) as port:
        board = ServedDashboard(port, inner, "/ops/stem")
        for path in ["/", "/tasks", "/tasks/t-failed", "/queues"]:
            answer = board.get(path)
            assert answer.status == 200
            for mark in ('href="', 'action="', 'src="', 'hx-get="', 'hx-post="'):
                links = [part.split('"')[0] for part in answer.text.split(mark)[1:]]
                assert [link for link in links if not link.startswith(("/ops/stem/", "#"))] == [], path
        assert board.get("/static/dashboard.css").status == 200


def test_what_is_not_there_is_a_sentence(board: ServedDashboard) -> None:
    assert board.get("/tasks/nobody").status == 404
    assert "There is no task nobody here" in board.get("/tasks/nobody").words
    assert board.get("/workers/nobody").status == 404
    assert board.get("/tasks?state=lost").status == 400
    assert board.get("/tasks?cursor=nonsense").status == 400
    assert "There is no such page" in board.get("/elsewhere").words


def test_an_overview_reads_the_minutes_that_workers_counted(app: Stem, board: ServedDashboard) -> None:
    from datetime import UTC, datetime

    from stem.contracts.rollups import Measures, MinuteRow

    minute = datetime.fromtimestamp(app.store.upkeep.now() // 60 * 60, UTC)
    measures = Measures({"succeeded": 1234, "failed": 66}, {}, {"run": {0: 1300}})
    app.store.rollups.put([MinuteRow(minute=minute, name="shop.pay", queue="q", worker="w", measures=measures)])
    words = board.get("/").words
    assert "1,300" in words and "data-chart" in board.get("/").text
    assert "shop.pay fails: 66 times" not in words  # 5 % of them


def test_a_lake_shows_how_fresh_it_is_and_a_missing_one_what_to_do(app: Stem, tmp_path: Path) -> None:
    from stem.pipeline.lake.lake import prepare_lake

    with served(app, lake=str(tmp_path / "nothing")) as board:
        assert "stem pipeline run" in board.get("/spark").words
    prepare_lake(str(tmp_path / "lake"), "a store")
    with served(app, lake=str(tmp_path / "lake")) as board:
        answer = board.get("/spark")
        assert answer.status == 200 and "current" in answer.words, answer.words


def test_odd_values_in_an_address_are_a_sentence(board: ServedDashboard) -> None:
    for path in ("/tasks?since=0001-01-01T00:00:00%2B10:00", "/canvases?cursor=x", "/tasks?cursor=x"):
        assert board.get(path).status == 400, path


def test_a_search_that_ran_out_of_time_does_not_say_that_nothing_matches(
    app: Stem, board: ServedDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stem.observe.tasks.SCAN_SECONDS", -1.0)
    monkeypatch.setattr("stem.observe.tasks._STEP", 2)
    app.store.broker.push([a_push(f"t{i}") for i in range(5)])
    answer = board.get("/tasks?error=gateway")
    assert "No match yet" in answer.words and "older ones may match" in answer.words and "cursor=" in answer.text


def test_hidden_fields_keep_what_cannot_be_seen(board: ServedDashboard) -> None:
    answer = board.request("POST", "/dead-letters/replay", {"name": "a\u00a0<b"}, {**OURS, **PAGE})
    assert 'name="name" value="a\u00a0&lt;b"' in answer.text
