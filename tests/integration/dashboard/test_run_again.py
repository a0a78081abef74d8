"""A task that is run again has the arguments that were shown, and was signed if ours are."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import url_of
from stem import Stem
from support.web.dashboards import ServedDashboard, furnish, served

KEYS = "k1:hmac-sha256:" + "c2VjcmV0" * 6


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of("sqlite", request, tmp_path)


@pytest.fixture
def app(url: str, namespace: str) -> Iterator[Stem]:
    with Stem(url, namespace=namespace) as made:
        yield made


@pytest.fixture
def board(app: Stem) -> Iterator[ServedDashboard]:
    with served(app) as found:
        yield found


def edited(board: ServedDashboard, task_id: str) -> str:
    found = re.search(r"<textarea name=\"arguments\"[^>]*>(.*?)</textarea>", board.get(f"/tasks/{task_id}").text, re.S)
    assert found is not None
    return html.unescape(found[1])


def waiting(app: Stem) -> list[str]:
    return [each.id for each in app.store.broker.peek("default", limit=50)]


def test_what_was_not_signed_is_not_run_again_under_our_key(app: Stem, url: str, namespace: str) -> None:
    furnish(app)
    with Stem(url, namespace=namespace, signing_keys=KEYS) as ours, served(ours) as board:
        before = waiting(app)
        for task_id, reason in (("t-failed", "not signed"), ("t-succeeded", "no longer has the signed call")):
            answer = board.post(f"/tasks/{task_id}/run-again", {"arguments": "{}"})
            assert answer.status == 400 and "Nothing was enqueued" in answer.words and reason in answer.words
        assert waiting(app) == before
        shown = board.get("/tasks/t-failed")
        assert "Not signed with a known key" in shown.words and "<textarea" not in shown.text
        signed = ours.enqueue("shop.pay", {"note": "x"}, check=False)
        assert "Not signed" not in board.get(f"/tasks/{signed.id}").words
        assert board.post(f"/tasks/{signed.id}/run-again", {"arguments": "{}"}).status == 200


def test_arguments_that_cannot_be_seen_are_sent_as_they_were(app: Stem, board: ServedDashboard) -> None:
    text = "a\u00a0b\u202e\x1b\\u00a0\n\U000e0001"
    furnish(app, text)
    before = waiting(app)
    assert board.post("/tasks/t-failed/run-again", {"arguments": edited(board, "t-failed")}).status == 200
    (new,) = set(waiting(app)) - set(before)
    found = app.store.broker.find(new)
    assert found is not None
    from stem.core.envelope import decode

    assert decode(found.body).arguments() == {"note": text}
