"""A worker whose terminal is closed stops as by Ctrl-C, and what it ran has lost nothing; under nohup it goes on."""

import fcntl
import os
import signal
import subprocess
import termios
from types import TracebackType
from typing import Self

import psutil

from acceptance.lab import Lab
from acceptance.shell import STEM
from stem.core.lifecycle import State
from support.until import until


class Terminal:
    """A worker in the foreground of a terminal of its own."""

    def __init__(self, lab: Lab, *words: str) -> None:
        self._screen, theirs = os.openpty()
        self.process = subprocess.Popen(
            [STEM, "worker", "start", *words],
            cwd=lab.shell.directory,
            env=lab.shell.variables,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        os.close(self._screen)


def test_a_closed_terminal_is_no_death_however_often(lab: Lab) -> None:
    held, stubborn = lab.desk.send("hold"), lab.desk.send("stubborn")
    for times in range(1, 5):
        with Terminal(lab, "--concurrency", "2", "--grace", "1s") as terminal:
            until(lambda: lab.times("hold") == lab.times("stubborn") == times, seconds=30)  # noqa: B023 - asked here
            family = psutil.Process(terminal.process.pid).children(recursive=True)
            terminal.close()
            assert terminal.process.wait(timeout=30) == 0
        assert psutil.wait_procs(family, timeout=20)[1] == []
        for task in (held, stubborn):
            record = lab.desk.record(task)
            assert (record.state, record.attempt) == (State.QUEUED, 0)
            requeued = [event.data for event in lab.desk.events(task) if event.kind == "requeued"]
            assert len(requeued) == times and "shut" in requeued[-1]["reason"]


def test_a_hangup_of_every_process_is_one_to_the_worker(lab: Lab) -> None:
    """As a service manager may send it right after TERM: tasks may end, and none has died."""
    worker = lab.start("w1", "--concurrency", "2")
    held, inline = lab.desk.send("hold"), lab.desk.send("hold-inline")
    lab.began("hold", "inline")
    for process in worker.children:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGHUP)
    for mark in ("hold", "inline"):
        lab.let_go(mark)
    lab.desk.value(held), lab.desk.value(inline)
    assert (lab.times("hold"), lab.times("inline")) == (1, 1)


def test_under_nohup_a_worker_stays(lab: Lab) -> None:
    worker = lab.start("w1", around=("nohup",))
    worker.process.send_signal(signal.SIGHUP)
    assert lab.desk.value(lab.desk.send("quick")) > 0
    assert worker.end() == 0
