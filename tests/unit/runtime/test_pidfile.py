"""Pid files on real processes: which one is meant, and is it still that one?"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stem.core.errors import ConfigError
from stem.runtime import pidfile
from stem.runtime.daemon import LaunchPlan, launch
from stem.runtime.pidfile import Missing, Reading, Recycled, Running, Stale, Unreadable
from support.until import until


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "alpha.pid"


@pytest.fixture
def process(file: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """One that has written its own pid file."""
    started = subprocess.Popen(["sleep", "60"], preexec_fn=lambda: pidfile.write_own(file))
    yield started
    started.kill()
    started.wait()


def test_a_process_that_runs_is_told_with_its_age(file: Path, process: "subprocess.Popen[bytes]") -> None:
    before = datetime.now(UTC)
    found = pidfile.read(file)
    after = datetime.now(UTC)
    assert isinstance(found, Running)
    assert found.pid == process.pid
    least, most = ((moment - found.since).total_seconds() for moment in (before, after))
    assert least - 1 < found.uptime_seconds < most + 1
    assert int(file.read_text().splitlines()[0]) == process.pid, "other programs read the first line"
    again = until(lambda: r if isinstance(r := pidfile.read(file), Running) and r != found else None)
    assert again.uptime_seconds > found.uptime_seconds and again.since == found.since


def test_a_process_that_has_ended_is_stale_even_before_its_parent_takes_note(
    file: Path, process: "subprocess.Popen[bytes]"
) -> None:
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert isinstance(pidfile.read(file), Stale)
    process.wait()
    assert isinstance(pidfile.read(file), Stale)


def test_another_process_with_the_same_number_is_not_it(file: Path, process: "subprocess.Popen[bytes]") -> None:
    pid, since, start = file.read_text().splitlines()
    boot, tick = start.split()
    for other in (f"{boot} {int(tick) - 1}", f"{'0' * 8}{boot[8:]} {tick}"):
        file.write_text(f"{pid}\n{since}\n{other}\n")
        found = pidfile.read(file)
        assert isinstance(found, Recycled) and found.pid == process.pid


def test_a_file_of_another_program_counts_unless_the_process_is_younger(
    file: Path, process: "subprocess.Popen[bytes]"
) -> None:
    file.write_text(f" {process.pid}\n")
    found = pidfile.read(file)
    assert isinstance(found, Running) and found.pid == process.pid
    an_hour_ago = time.time() - 3600
    os.utime(file, (an_hour_ago, an_hour_ago))
    assert isinstance(pidfile.read(file), Recycled)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_user_cannot_name_the_process_of_another(file: Path, process: "subprocess.Popen[bytes]") -> None:
    os.chown(file, 65534, 65534)
    found = pidfile.read(file)
    assert isinstance(found, Unreadable) and f"user 65534 owns it, and process {process.pid}" in found.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b"\n", "it is empty"),
        (b"alpha\n", "no process id"),
        (b"-1\n", "no process id"),
        (b"0\n", "no process id"),
        (b"99999999999999999999\n", "no process id"),
        ("٣\n".encode(), "no process id"),
        (b"12\nyesterday\nx 1\n", "no moment"),
        (b"\xff\xfe", "not text"),
    ],
)
def test_a_file_that_is_no_pid_file_is_unreadable(file: Path, content: bytes, reason: str) -> None:
    file.write_bytes(content)
    found = pidfile.read(file)
    assert isinstance(found, Unreadable) and reason in found.reason


def test_a_file_that_is_not_there_is_missing_and_a_folder_is_none(file: Path) -> None:
    assert pidfile.read(file) == Missing()
    assert pidfile.read(file.parent / "no" / "folder") == Missing()
    assert isinstance(pidfile.read(file.parent), Unreadable)


def test_each_reading_is_told_apart_in_one_sentence(file: Path) -> None:
    now = datetime.now(UTC)
    readings: list[Reading] = [
        Running(7, now, 1.0, ""),
        Missing(),
        Unreadable("it is empty"),
        Stale(7, now),
        Recycled(7, now),
    ]
    sentences = {pidfile.sentence(file, each) for each in readings}
    assert len(sentences) == 5
    assert all(each.endswith(".") and "\n" not in each for each in sentences)


def test_the_file_of_a_process_that_has_ended_is_dropped(file: Path, process: "subprocess.Popen[bytes]") -> None:
    pidfile.drop(file, process.pid)
    assert file.exists(), "it runs"
    process.kill()
    process.wait()
    pidfile.drop(file, process.pid + 1)
    assert file.exists(), "it speaks of another one"
    pidfile.drop(file, process.pid)
    assert not file.exists()
    pidfile.drop(file, process.pid)


def test_a_reader_never_sees_half_a_file(file: Path) -> None:
    """Written again and again by one process, read by another."""
    pidfile.write_own(file)
    stopped = threading.Event()

    def write() -> None:
        while not stopped.is_set():
            pidfile.write_own(file)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert all(isinstance(pidfile.read(file), Running) for _ in range(500))
    finally:
        stopped.set()
        writer.join()
    assert [each.name for each in file.parent.iterdir()] == ["alpha.pid"]


HOLD = """
import sys
from pathlib import Path
from stem.core.errors import ConfigError
from stem.runtime import pidfile
from stem.runtime.daemon import LaunchPlan, launch

with pidfile.locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def locked_by_a_stranger(file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever can read a folder can lock it."""
    monkeypatch.setattr(pidfile, "LOCK_SECONDS", 0.2)
    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        yield
        holder.kill()


@pytest.mark.usefixtures("locked_by_a_stranger")
@pytest.mark.timeout(20)
def test_a_start_does_not_wait_for_ever_for_a_stranger_that_holds_the_lock(file: Path, tmp_path: Path) -> None:
    plan = LaunchPlan((sys.executable, "-c", ""), {}, file, tmp_path / "log", tmp_path)
    with pytest.raises(ConfigError, match="Another process has locked the folder"):
        launch(plan)
    assert not file.exists()


@pytest.mark.usefixtures("locked_by_a_stranger")
@pytest.mark.timeout(20)
def test_a_stop_leaves_the_file_to_a_stranger_that_holds_the_lock(file: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    file.write_text(f"{process.pid}\n")
    process.wait()
    pidfile.drop(file, process.pid)
    assert file.exists()


def test_the_lock_keeps_others_out_until_its_holder_is_gone(file: Path) -> None:
    entered = threading.Event()

    def enter() -> None:
        with pidfile.locked(file):
            entered.set()

    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        waiting = threading.Thread(target=enter)
        waiting.start()
        assert not entered.wait(0.2)
        holder.kill()
        assert entered.wait(10)
        waiting.join()
