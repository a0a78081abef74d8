"""How workers stop, by command and by signal, and when their isolates are replaced."""

import os
import signal

import psutil
import pytest

from acceptance.lab import Lab, is_alive
from stem.core.lifecycle import EventKind, State
from support.until import until


def states(lab: Lab, *ids: str) -> list[tuple[State, int]]:
    return [(lab.desk.record(each).state, lab.desk.record(each).attempt) for each in ids]


def test_a_warm_command_lets_tasks_end_and_gives_back_the_rest(any_lab: Lab) -> None:
    worker = any_lab.start("w1", "--concurrency", "1")
    held = any_lab.desk.send("hold")
    any_lab.began("hold")
    waiting = [any_lab.desk.send("quick") for _ in range(3)]
    assert any_lab.told("shutdown") == {"mode": "warm", "state": "draining"}
    worker.says("worker.stop_requested mode=warm")
    assert any_lab.replies("ping")["w1"]["state"] == "draining"
    any_lab.let_go("hold")
    assert worker.process.wait(timeout=30) == 0
    assert any_lab.desk.value(held) == any_lab.began("hold")
    assert states(any_lab, *waiting) == [(State.QUEUED, 0)] * 3
    assert any_lab.times("quick") == 0 and any_lab.pulses == {}


def test_a_soft_command_tells_tasks_to_stop_and_they_go_back(any_lab: Lab) -> None:
    worker = any_lab.start("w1", "--concurrency", "2", "--grace", "1s")
    held, stubborn = any_lab.desk.send("hold"), any_lab.desk.send("stubborn")
    any_lab.began("hold", "stubborn")
    assert any_lab.told("shutdown", "--mode", "soft")["mode"] == "soft"
    assert worker.process.wait(timeout=30) == 0
    assert states(any_lab, held, stubborn) == [(State.QUEUED, 0)] * 2
    until(lambda: not is_alive(int((any_lab.shell.directory / "child").read_text())))


def test_a_hard_command_puts_tasks_back_at_once(any_lab: Lab) -> None:
    worker = any_lab.start("w1", "--grace", "60s")
    stubborn = any_lab.desk.send("stubborn")
    any_lab.began("stubborn")
    assert any_lab.told("shutdown", "--mode", "hard")["mode"] == "hard"
    assert worker.process.wait(timeout=30) == 0
    assert states(any_lab, stubborn) == [(State.QUEUED, 0)]
    until(lambda: not is_alive(int((any_lab.shell.directory / "child").read_text())))


@pytest.mark.parametrize(("spelled", "mode"), [("cold", "soft"), ("FORCE", "hard")])
def test_modes_have_two_names(lab: Lab, spelled: str, mode: str) -> None:
    worker = lab.start()
    assert lab.told("shutdown", "--mode", spelled)["mode"] == mode
    assert worker.process.wait(timeout=30) == 0


def test_only_the_worker_that_is_named_stops(lab: Lab) -> None:
    first = lab.start("w1", "--concurrency", "1")
    second = lab.start("w2", "--concurrency", "1")
    lab.told("shutdown", "--worker", "w1")
    assert first.process.wait(timeout=30) == 0
    assert second.process.poll() is None and list(lab.replies("ping")) == ["w2"]


@pytest.mark.parametrize(
    ("signals", "is_hard"),
    [
        ((signal.SIGINT,), False),
        ((signal.SIGTERM, signal.SIGINT), False),
        ((signal.SIGTERM, signal.SIGTERM), False),
        ((signal.SIGQUIT,), True),
        ((signal.SIGINT, signal.SIGINT), True),
        ((signal.SIGTERM, signal.SIGQUIT), True),
    ],
)
def test_signals_stop_a_worker_and_a_second_one_is_harder_than_the_first(
    lab: Lab, signals: tuple[signal.Signals, ...], is_hard: bool
) -> None:
    """Of a task that hears nothing a hard stop makes short work; a soft one has to wait for its grace."""
    worker = lab.start("w1", "--grace", "60s" if is_hard else "500ms")
    stubborn = lab.desk.send("stubborn")
    lab.began("stubborn")
    worker.process.send_signal(signals[0])
    worker.says("worker.stop_requested mode=")
    for number in signals[1:]:
        worker.process.send_signal(number)
    assert worker.process.wait(timeout=30) == 0
    assert states(lab, stubborn) == [(State.QUEUED, 0)]


def test_a_warm_stop_by_command_can_be_hurried_by_another(lab: Lab) -> None:
    worker = lab.start("w1", "--grace", "60s")
    stubborn = lab.desk.send("stubborn")
    lab.began("stubborn")
    lab.told("shutdown")
    worker.says("worker.stop_requested mode=warm")
    lab.told("shutdown", "--mode", "hard")
    assert worker.process.wait(timeout=30) == 0
    assert states(lab, stubborn) == [(State.QUEUED, 0)]


def test_a_warm_stop_waits_no_longer_than_it_may(lab: Lab) -> None:
    worker = lab.start("w1", "--concurrency", "2", "--warm-timeout", "500ms", "--grace", "500ms")
    held, stubborn = lab.desk.send("hold"), lab.desk.send("stubborn")
    lab.began("hold", "stubborn")
    assert worker.end() == 0
    assert states(lab, held, stubborn) == [(State.QUEUED, 0)] * 2


def test_a_signal_to_the_whole_group_is_one_to_the_worker(lab: Lab) -> None:
    """As a shell sends Ctrl-C, and some service managers TERM."""
    worker = lab.start(around=("setsid",))
    held = lab.desk.send("hold")
    lab.began("hold")
    os.killpg(worker.process.pid, signal.SIGTERM)
    worker.says("worker.stop_requested mode=warm")
    lab.let_go("hold")
    assert worker.process.wait(timeout=30) == 0
    assert lab.desk.value(held) == lab.began("hold") and lab.times("hold") == 1


def test_a_term_to_every_process_is_one_to_the_worker(lab: Lab) -> None:
    """As `pkill` sends it, and systemd by default."""
    worker = lab.start("w1", "--concurrency", "2")
    held = lab.desk.send("hold")
    lab.began("hold")
    for process in reversed([psutil.Process(worker.process.pid), *worker.children]):
        process.send_signal(signal.SIGTERM)
    worker.says("worker.stop_requested mode=warm")
    lab.let_go("hold")
    assert worker.process.wait(timeout=30) == 0
    assert lab.desk.value(held) == lab.began("hold") and lab.times("hold") == 1


def test_a_worker_is_a_good_first_process_of_a_container(lab: Lab) -> None:
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    worker = lab.start(around=("unshare", *rights, "--pid", "--fork", "--mount-proc", "--kill-child"))
    assert lab.pulses == {"w1": 1}
    held = lab.desk.send("hold")
    lab.began("hold")
    worker.children[0].send_signal(signal.SIGTERM)
    worker.says("worker.stop_requested mode=warm")
    lab.let_go("hold")
    assert worker.process.wait(timeout=30) == 0
    lab.desk.value(held)


def test_an_isolate_is_replaced_after_its_hundredth_task_and_no_other(lab: Lab) -> None:
    lab.start("w1", "--concurrency", "2", "--max-tasks-per-isolate", "100")
    held = lab.desk.send("hold")
    busy = lab.began("hold")
    pids = [lab.desk.value(each) for each in [lab.desk.send("quick") for _ in range(150)]]
    first, second = dict.fromkeys(pids)
    assert (pids.count(first), pids.count(second)) == (100, 50)
    until(lambda: set(lab.told("stats")["isolates"]) == {busy, second}, seconds=30)
    assert until(lambda: lab.noted(EventKind.WORKER_RECYCLED)) == [{"isolate": first, "reason": "max-tasks"}]
    lab.let_go("hold")
    assert lab.desk.value(held) == busy


def test_an_isolate_that_has_grown_too_large_is_replaced_after_its_task(lab: Lab) -> None:
    worker = lab.start("w1", "--concurrency", "2", "--max-memory-per-isolate", "150MB")
    held, grown = lab.desk.send("hold"), lab.desk.send("grow", megabytes=200)
    busy, large = lab.began("hold"), lab.began("grow")
    worker.says(f"isolate.recycled pid={large} reason=max-memory")
    assert is_alive(large), "it may end what it runs"
    lab.let_go("grow")
    assert lab.desk.value(grown) == large
    until(lambda: not is_alive(large))
    assert lab.desk.value(lab.desk.send("quick")) not in (large, busy)
    (noted,) = until(lambda: lab.noted(EventKind.WORKER_RECYCLED))
    assert noted["isolate"] == large and noted["reason"].startswith("max-memory")
    lab.let_go("hold")
    assert lab.desk.value(held) == busy


def test_an_isolate_that_grows_in_no_time_is_replaced_before_its_next_task(lab: Lab) -> None:
    worker = lab.start("w1", "--concurrency", "1", "--max-memory-per-isolate", "150MB")
    lab.let_go("grow")
    for _ in range(3):
        large = lab.desk.value(lab.desk.send("grow", megabytes=200))
        assert lab.desk.value(lab.desk.send("quick")) != large
        worker.says(f"isolate.recycled pid={large} reason=max-memory")


@pytest.mark.parametrize("size", ["0", "lots", "-5MB"])
def test_a_size_that_is_none_is_refused(lab: Lab, size: str) -> None:
    assert "is not a size" in lab.shell.refusal("worker", "start", f"--max-memory-per-isolate={size}", code=64)
