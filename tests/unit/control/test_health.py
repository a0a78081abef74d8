"""How a worker is said to be."""

import os
import socket
import subprocess
import sys
from typing import Any

import pytest

from stem.control.health import health, is_running
from stem.core.control import Reply, ReplyError
from stem.core.heartbeat import Heartbeat, Pulse
from support.until import until
from support.workers.steerable import GONE_PID

SILENT = Reply(request_id="r", worker_id="w", status="timeout", error=ReplyError(message="No word.", code="timeout"))
UNKNOWN = Reply(
    request_id="r", worker_id="w", status="timeout", error=ReplyError(message="Who?", code="unknown-worker")
)


def pulse(*, host: str = "", pid: int = 0) -> Pulse:
    heartbeat = Heartbeat(
        worker_id="w", namespace="n", host=host or socket.gethostname(), pid=pid or os.getpid(), uptime_seconds=1.0,
        concurrency=1, in_flight=0, queues=[],
    )  # fmt: skip
    return Pulse(heartbeat, 1.0)


@pytest.mark.parametrize("state", ["ok", "wedged", "draining", "paused"])
def test_a_worker_that_answers_is_as_it_says(state: str) -> None:
    assert health(Reply(request_id="r", worker_id="w", status="ok", payload={"state": state}), None) == state


@pytest.mark.parametrize("payload", [{}, {"state": "dead"}, {"state": ["ok"]}, {"state": None}])
def test_a_worker_that_answers_without_saying_how_it_is_is_ok(payload: dict[str, Any]) -> None:
    assert health(Reply(request_id="r", worker_id="w", status="ok", payload=payload), None) == "ok"


def test_a_worker_that_says_no_and_not_how_it_is_has_refused() -> None:
    assert health(Reply(request_id="r", worker_id="w", status="error"), None) == "refused"
    assert health(Reply(request_id="r", worker_id="w", status="error", payload={"state": "paused"}), None) == "paused"


def test_a_silent_worker_is_dead_when_its_heartbeat_or_its_process_is_gone() -> None:
    assert health(SILENT, None) == "dead"
    assert health(SILENT, pulse(pid=GONE_PID)) == "dead"
    assert health(SILENT, pulse()) == "timeout"
    assert health(SILENT, pulse(host="elsewhere", pid=GONE_PID)) == "timeout", "nobody here can know"
    assert health(UNKNOWN, None) == "timeout"


def test_a_killed_process_does_not_run_even_before_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert is_running(child.pid)
    child.kill()
    until(lambda: not is_running(child.pid))
    assert child.returncode is None
    child.communicate()
    assert not is_running(child.pid)
    assert is_running(1)
