"""Somebody who can write to the store answers for a worker that is not there: no command falls over what he says."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import msgspec
import pytest

from acceptance.lab import Lab
from stem.control.transports.control_mail import ControlMail
from support.workers.steerable import beat

COMMANDS = (
    ("ping",),
    ("stats",),
    ("inspect",),
    ("queue-status",),
    ("autoscale",),
    ("rate-limit", "quick", "5/s"),
    ("recycle",),
    ("shutdown",),
    ("pause", "--queue", "mail", "--unknown-ok"),
    ("resume", "--queue", "mail", "--unknown-ok"),
    ("revoke", "some-task", "--unknown-ok"),
)


@contextmanager
def answering(lab: Lab, payload: Any) -> Iterator[None]:
    """Answers `ok` with that payload to whatever is asked, in the name of a worker called ghost."""
    store, stopped = lab.desk.app.store, Event()
    post = ControlMail(store.mail, store.namespace)
    heard = post.subscribe()

    def answer() -> None:
        while not stopped.is_set():
            for raw in heard.receive(timeout_seconds=0.2):
                request = msgspec.json.decode(raw)["requestId"]
                reply = {"requestId": request, "workerId": "ghost", "status": "ok", "payload": payload}
                for message in (b"rubbish", msgspec.json.encode(reply)):
                    store.mail.send(post.reply_box(request), message, ttl_seconds=60)

    thread = Thread(target=answer, daemon=True)
    thread.start()
    beat(store, "ghost", host="elsewhere", state=5, beatSeconds="often", isolates={})
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        heard.close()
        store.heartbeats.forget("ghost")


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"tasks": 5, "queues": 5, "autoscale": 5, "paused": 5, "recycling": 5, "mode": [], "state": {}, "rateLimit": {}},
        {"tasks": [5], "queues": {"q": 5}, "autoscale": {"enabled": {}}, "counters": {"x": {}}, "task": {}, "pid": "\x1b[2J"},
    ],
)  # fmt: skip
def test_a_malformed_answer_is_never_a_crash_and_without_keys_it_is_marked_as_unverified(
    lab: Lab, payload: dict[str, Any]
) -> None:
    with answering(lab, payload):
        for words in COMMANDS:
            done = lab.run(*words, "--timeout", "10s")
            assert done.returncode == 0, (words, done)
            assert "Traceback" not in done.stdout + done.stderr and "\x1b" not in done.stdout
            assert "unverified" in done.stdout
            assert lab.answers(*words)["verified"] is False
        for words in (("status",), ("healthcheck",)):
            assert "Traceback" not in lab.run(*words).stderr


def test_with_keys_nobody_elses_answer_is_shown(lab: Lab) -> None:
    signing = lab.shell.at(STEM_CONTROL_KEYS="ops:hmac-sha256:" + "b3Bz" * 8)
    with answering(lab, {"pong": True, "state": "ok"}):
        done = signing.run("worker", "ping", "--timeout", "1s")
    assert done.returncode == 70 and "What was answered in the name of ghost does not count" in done.stderr
    assert "pong" not in done.stdout


def test_control_characters_in_an_http_reply_do_not_reach_the_terminal(lab: Lab) -> None:
    store = lab.desk.app.store
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            visitor, _ = server.accept()
            with visitor:
                visitor.recv(65536)
                visitor.sendall(b"HTTP/1.1 500 \x1b]0;owned\x07\x9b2J\r\nContent-Length: 0\r\n\r\n")

        thread = Thread(target=answer, daemon=True)
        thread.start()
        beat(store, "ghost", controlUrl=f"http://127.0.0.1:{server.getsockname()[1]}")
        shell = lab.shell.at(STEM_CONTROL_TRANSPORTS="http,broker", STEM_CONTROL_TOKEN="t" * 16)
        done = shell.run("worker", "ping", "--timeout", "2s")
        thread.join(10)
    assert r"it answered 500 \x1b]0;owned\x07" in done.stderr
    assert not any(character in done.stdout + done.stderr for character in "\x1b\x07\x9b")
