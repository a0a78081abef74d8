"""The probes of a worker in each of its states, asked over HTTP while real things go wrong."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median

import psutil
import pytest

from stem.control.caller import Caller
from stem.core.errors import ConfigError
from stem.worker.supervisor import Worker
from support.servers import RedisServer
from support.until import until
from support.workers.probes import Probe
from support.workers.processes import TESTS, desk, environment, worker_here, worker_process

PLAIN = "support.worker_apps.plain:app"
TOKEN = "a-token-that-is-long-enough"
STUCK = (
    "import signal, sys, time\n"
    "from stem.worker.supervisor import Worker\n"
    "signal.signal(signal.SIGUSR1, lambda *_: time.sleep(60))\n"
    "sys.exit(Worker(path=sys.argv[1], health=sys.argv[2], stall_seconds=3.0, concurrency=1).run())\n"
)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/stem.db"


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    with suppress(ProcessLookupError):
        if server.process is not None:
            server.process.send_signal(signal.SIGCONT)
    server.close()


def test_a_worker_that_imports_its_app_is_alive_and_not_ready(url: str, namespace: str, tmp_path: Path) -> None:
    gate, app, probe = tmp_path / "gate", tmp_path / "slow.py", Probe()
    app.write_text(
        "import time\nfrom pathlib import Path\nfrom stem import Stem\n"
        f"while not Path({str(gate)!r}).exists():\n    time.sleep(0.01)\n"
        "app = Stem()\n"
    )
    with worker_process(url, namespace, f"{app}:app", tmp_path, is_awaited=False, health=probe.address):
        assert until(lambda: _state(probe)) == (503, "starting", "")
        assert probe.is_live()
        assert probe.get("/metrics").status == 503
        assert probe.get("/scale").status == 503
        gate.touch()
        probe.until_ready()


def test_a_ready_worker_tells_what_it_does_and_a_paused_one_is_still_ready(
    url: str, namespace: str, tmp_path: Path
) -> None:
    probe, mark, end = Probe(), tmp_path / "mark", tmp_path / "end"
    with (
        desk(url, namespace) as client,
        worker_process(url, namespace, PLAIN, tmp_path, health=probe.address, name="w1", concurrency=2),
    ):
        client.call("echo")
        client.send("hold", file=str(mark), until=str(end))
        until(lambda: probe.get("/readyz").json["inFlight"] == 1)
        told = probe.until_ready()
        assert (told["state"], told["broker"], told["workerId"]) == ("ok", "connected", "w1")
        assert (told["queues"], told["pausedQueues"], told["concurrency"]) == (["default"], [], 2)
        assert len(told["isolates"]) == 2
        assert told["lastHeartbeatAt"] and told["lastHeartbeatAgeSeconds"] < 30 and told["lastFetchAgeSeconds"] < 30
        assert Caller(client.app.store).ask("pause", {"queues": ["default"]}, timeout_seconds=20).is_all_ok
        assert probe.state() == (200, "paused", "connected")
        assert probe.get("/readyz").json["pausedQueues"] == ["default"]
        end.touch()


def test_scale_counts_what_is_due_and_what_runs(url: str, namespace: str, tmp_path: Path) -> None:
    probe, mark, end = Probe(), tmp_path / "mark", tmp_path / "end"
    with (
        desk(url, namespace) as client,
        worker_process(url, namespace, PLAIN, tmp_path, health=probe.address, concurrency=1, prefetch=0),
    ):
        for _ in range(3):
            client.send("hold", file=str(mark), until=str(end))
        client.send("echo", {"queue": "other"})
        until(lambda: probe.get("/scale?queue=default").json["running"] == 1)
        told = {"queues": ["default"], "due": 2, "running": 1, "value": 3}
        assert probe.get("/scale").json == told
        assert probe.get("/scale?queue=other&queue=none").json["value"] == 1
        assert probe.get("/scale?queue=no+queue").status == 400
        end.touch()


def test_a_draining_worker_is_alive_and_not_ready(url: str, namespace: str, tmp_path: Path) -> None:
    probe, mark, end = Probe(), tmp_path / "mark", tmp_path / "end"
    with (
        desk(url, namespace) as client,
        worker_process(url, namespace, PLAIN, tmp_path, health=probe.address) as worker,
    ):
        client.send("hold", file=str(mark), until=str(end))
        until(mark.exists)
        worker.send(signal.SIGTERM)
        until(lambda: probe.state()[:2] == (503, "draining"))
        assert probe.is_live()
        end.touch()
        assert worker.process.wait(20) == 0


def test_a_fork_server_that_hangs_makes_a_worker_wedged_until_it_goes_on(
    url: str, namespace: str, tmp_path: Path
) -> None:
    probe = Probe()
    with worker_process(url, namespace, PLAIN, tmp_path, health=probe.address, stall_seconds=4.0) as worker:
        probe.until_ready()
        fork_server = psutil.Process(worker.pid).children()[0].children()[0]
        fork_server.send_signal(signal.SIGSTOP)
        try:
            until(lambda: probe.state()[:2] == (503, "wedged"), seconds=20)
            assert probe.is_live()
        finally:
            fork_server.send_signal(signal.SIGCONT)
        probe.until_ready()


def test_a_broker_that_is_away_or_hangs_makes_a_worker_unready_and_no_less_alive(
    redis: RedisServer, namespace: str, tmp_path: Path
) -> None:
    probe = Probe()
    with worker_process(redis.url, namespace, PLAIN, tmp_path, health=probe.address, stall_seconds=8.0):
        probe.until_ready()
        redis.kill()
        until(lambda: probe.state()[::2] == (503, "away"), seconds=20)
        assert probe.is_live()
        redis.start()
        probe.until_ready()
        assert redis.process is not None
        redis.process.send_signal(signal.SIGSTOP)  # a fetcher that gets no answer
        until(lambda: probe.state()[0] == 503, seconds=20)
        assert probe.is_live()
        redis.process.send_signal(signal.SIGCONT)
        probe.until_ready()


def test_a_supervisor_that_is_stuck_is_not_alive(url: str, namespace: str, tmp_path: Path) -> None:
    probe = Probe()
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, PLAIN, probe.address], env=environment(url, namespace), start_new_session=True
    )
    try:
        probe.until_ready()
        assert probe.is_live()
        process.send_signal(signal.SIGUSR1)
        until(lambda: not probe.is_live(), seconds=20)
        assert "has not looked after its services" in probe.get("/livez").json["reason"]
    finally:
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait(10)
        psutil.wait_procs(family, timeout=10)


def test_a_worker_without_its_pool_is_not_alive(url: str, namespace: str) -> None:
    probe = Probe()
    with worker_here(url, namespace, PLAIN, health=probe.address, concurrency=1) as worker:
        assert probe.is_live()
        assert worker._running is not None
        worker._running.services.pool.stop()
        assert not probe.is_live()


def test_probes_answer_at_once_while_all_isolates_are_busy(url: str, namespace: str, tmp_path: Path) -> None:
    probe, app = Probe(), tmp_path / "busy.py"
    app.write_text(
        "import time\nfrom stem import Stem\napp = Stem()\n\n@app.task(name='spin')\n"
        "def spin() -> None:\n    end = time.monotonic() + 20\n    while time.monotonic() < end:\n        pass\n"
    )
    with (
        desk(url, namespace) as client,
        worker_process(url, namespace, f"{app}:app", tmp_path, health=probe.address, concurrency=2) as worker,
    ):
        for _ in range(2):
            client.send("spin")
        until(lambda: probe.get("/readyz").json["inFlight"] == 2)
        for path in ("/livez", "/readyz"):
            assert median(probe.get(path).seconds for _ in range(20)) < 0.1
        worker.kill()


def test_one_server_carries_control_and_probes_of_the_same_address(
    url: str, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = Probe()
    monkeypatch.setenv("STEM_CONTROL_HTTP", probe.address)
    monkeypatch.setenv("STEM_CONTROL_TOKEN", TOKEN)
    with worker_here(url, namespace, PLAIN, health=probe.address, concurrency=1):
        probe.until_ready()
        assert probe.get("/control", method="POST").status == 401
        assert probe.get("/control/replies/x").status == 401
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert probe.get("/control", method="POST", headers=bearer).status == 202
    assert _is_closed(probe)


def test_probes_are_read_only_and_belong_to_this_machine(url: str, namespace: str) -> None:
    probe = Probe()
    with worker_here(url, namespace, PLAIN, health=probe.address, concurrency=1):
        assert probe.get("/control", method="POST").status == 404
        assert probe.get("/readyz", method="POST").status == 405
        assert probe.get("/livez", headers={"Host": "evil.example"}).status == 400
        assert probe.get("/livez", headers={"Host": "localhost"}).status == 200
    assert _is_closed(probe)
    everywhere = Probe(probe.address.replace("127.0.0.1", "0.0.0.0"))
    with worker_here(url, namespace, PLAIN, health=everywhere.address, concurrency=1):
        assert probe.get("/livez", headers={"Host": "worker-1.pods.example"}).status == 200


def test_a_port_that_is_taken_is_one_sentence_and_leaves_nothing_behind(url: str, namespace: str) -> None:
    probe = Probe()
    with worker_here(url, namespace, PLAIN, health=probe.address, concurrency=1):
        with pytest.raises(ConfigError, match=r"Health cannot listen on .* \(Address already in use\)"):
            Worker(path=PLAIN, health=probe.address).start()
    assert _is_closed(probe)
    with pytest.raises(ConfigError):
        Worker(path="no.such:app", health=probe.address).start()
    assert _is_closed(probe), "a worker that did not start still listens"


def test_without_the_extra_health_is_one_sentence() -> None:
    code = (
        "import sys; sys.modules['starlette'] = sys.modules['uvicorn'] = None\n"
        "from stem import Stem, Worker\n"
        "Worker(Stem('memory://'), in_process=True, health='127.0.0.1:0').start()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=TESTS, env=os.environ)
    assert "need the package 'starlette'; pip install 'stem-tasks[http]'." in done.stderr


def test_a_worker_in_a_process_that_is_frozen_answers_no_probe(url: str, namespace: str, tmp_path: Path) -> None:
    probe = Probe()
    with worker_process(url, namespace, PLAIN, tmp_path, health=probe.address, concurrency=1) as worker:
        worker.send(signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            probe.get("/livez")
        worker.send(signal.SIGCONT)


def _state(probe: Probe) -> tuple[int, str, str] | None:
    try:
        return probe.state()
    except OSError:
        return None


def _is_closed(probe: Probe) -> bool:
    try:
        probe.get("/livez")
    except OSError:
        return True
    return False
