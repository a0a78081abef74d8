"""Text of tasks, workers and senders is shown as text, wherever it stands."""

import re

from stem import Stem
from stem.core.lifecycle import EventKind
from support.web.dashboards import ServedDashboard, furnish

SCRIPT = "<script>alert(1)</script>"
ATTRIBUTE = "\" onmouseover=alert(1) x='"
HOSTILE = f"{SCRIPT}{ATTRIBUTE}{{{{7*7}}}}\u202e\x1b[31m"
PATHS = [
    "/", "/tasks", "/tasks/t-failed", "/tasks/t-succeeded", "/tasks/t-retried", "/tasks/t-cancelled", "/tasks/t-queued",
    "/tasks/t-failed/timeline", "/tasks/t-cancelled/timeline", "/tasks/t-retried/timeline", "/queues", "/queues/default",
    "/workers", "/workers/w1", "/dead-letters", "/schedules", "/events", "/audit", "/tasks/bulk?verb=replay",
]  # fmt: skip


def check(text: str, path: str) -> None:
    """No tag and no attribute of ours was made by it, and nothing that cannot be seen is in the page."""
    assert SCRIPT not in text, path
    assert not re.search(r"<[^>]*\sonmouseover=", re.sub(r'="[^"]*"', "", text)), path
    assert "\u202e" not in text and "\x1b" not in text, path


def test_what_is_stored_in_twelve_fields_is_escaped_on_every_page(app: Stem, board: ServedDashboard) -> None:
    """Arguments, meta, headers, result, error type, message and stack, reason, schedule's note; a worker's host, state, queue
    and tasks; and an operator's name."""
    furnish(app, HOSTILE)
    app.store.events.note(
        EventKind.OPERATOR_ACTED, worker="", data={"who": HOSTILE, "what": HOSTILE, "result": HOSTILE}
    )
    shown = {path: board.get(path).text for path in PATHS}
    for path, text in shown.items():
        check(text, path)
        assert "49" not in re.findall(r"\{\{7\*7\}\}|49(?=\\u202e)", text), path
    assert "&lt;script&gt;" in shown["/tasks/t-failed"] and "&lt;script&gt;" in shown["/workers"]
    assert "\\u202e" in shown["/tasks/t-failed"]


def test_what_stands_in_the_address_is_escaped(board: ServedDashboard) -> None:
    from urllib.parse import quote

    text = quote(SCRIPT + ATTRIBUTE)
    for path in (f"/tasks?error={text}", f"/tasks?name={text}", f"/tasks?state={text}", f"/dead-letters?queue={text}",
                 f"/events?name={text}", f"/?range={text}", f"/tasks/bulk?verb=replay&error={text}", f"/queues/{text}",
                 f"/workers/{text}", f"/dead-letters/{text}"):  # fmt: skip
        check(board.get(path).text, path)


def test_rows_of_live_events_are_escaped(app: Stem, board: ServedDashboard) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", board.port, timeout=10)
    connection.request("GET", "/live?events=1")
    stream = connection.getresponse()
    assert stream.status == 200 and stream.headers["Content-Type"].startswith("text/event-stream")
    assert stream.readline() == b"retry: 2000\n"
    furnish(app, HOSTILE)
    text = ""
    while "event: changed" not in text or "<tr>" not in text:
        text += stream.readline().decode()
    stream.close()
    connection.close()
    check(text, "/live")


def test_names_of_canvases_steps_and_events_are_escaped(app: Stem, board: ServedDashboard) -> None:
    import msgspec

    from support.builders import a_push
    from support.client.canvases import settle_all, submitted

    handle = submitted(app, "fetch", "report", name=HOSTILE)
    settle_all(app, failing=["fetch"], message=HOSTILE)
    app.store.broker.push([a_push("t-steps")])
    (delivery,) = app.store.broker.claim(["default"], limit=1, lease_seconds=60)
    payload = msgspec.Raw(msgspec.json.encode(HOSTILE))
    for name in (HOSTILE, f"wait:{HOSTILE}", "sleep:1"):
        app.store.steps.record(delivery.lease, name, payload)
    app.store.steps.send("t-steps", HOSTILE, payload)
    (report,) = [each.id for each in handle.tree()[1] if each.name == "report" and each.id is not None]
    for path in (
        "/canvases",
        f"/canvases/{handle.id}",
        "/tasks/t-steps",
        "/tasks/t-steps/timeline",
        f"/tasks/{report}",
    ):
        answer = board.get(path)
        assert answer.status == 200, path
        check(answer.text, path)
    assert "&lt;script&gt;" in board.get(f"/canvases/{handle.id}").text
