"""`stem dashboard` from the shell: one line at the start, a sentence for each refusal, a clean end."""

import os
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stem import Stem
from support.until import until

COMMAND = [sys.executable, "-m", "stem", "dashboard"]


def run(directory: Path, *arguments: str, given: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=directory,
        env={**_environment(directory), **variables},
        input=given,
        capture_output=True,
        text=True,
        timeout=30,
    )


@contextmanager
def running(directory: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A dashboard that is up, and its first line."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=directory,
        env=_environment(directory),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def test_it_says_where_it_is_serves_the_page_and_ends_cleanly_on_ctrl_c(tmp_path: Path) -> None:
    a_store(tmp_path)
    with running(tmp_path, "--port", "0") as (process, line):
        assert line.startswith("stem dashboard on http://127.0.0.1:")
        address = line.split()[-1]
        until(lambda: "Overview" in _page(address))
        with urllib.request.urlopen(f"{address}live", timeout=10) as stream:  # an open page does not delay the end
            assert stream.readline() == b"retry: 2000\n"
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=10)
        assert (process.returncode, out, err) == (0, "", "")


def test_what_operators_do_is_a_line_on_stderr(tmp_path: Path) -> None:
    a_store(tmp_path)
    with running(tmp_path, "--port", "0") as (process, line):
        address = line.split()[-1]
        until(lambda: "Overview" in _page(address))
        sent = urllib.request.Request(
            f"{address}queues/mail/pause", b"", {"Sec-Fetch-Site": "same-origin"}, method="POST"
        )
        with urllib.request.urlopen(sent, timeout=10) as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
        assert "INFO operator.acted who=local from=127.0.0.1 what=pause queue on=mail: mail is paused" in err
        assert len(err.splitlines()) == 1


def test_a_port_that_is_taken_is_a_sentence(tmp_path: Path) -> None:
    a_store(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = run(tmp_path, "--port", str(taken.getsockname()[1]))
    assert found.returncode == 70 and found.stdout == ""
    assert found.stderr.startswith("error: 127.0.0.1:") and "choose another with --port" in found.stderr
    assert found.stderr.count("\n") == 1


def test_an_address_of_another_machine_is_a_sentence_about_the_host(tmp_path: Path) -> None:
    a_store(tmp_path)
    found = run(tmp_path, "--host", "203.0.113.7", "--port", "0", STEM_DASHBOARD_TOKEN="0123456789abcdef")
    assert found.returncode == 70 and found.stderr.endswith("choose one of its own with --host.\n")


def test_another_address_without_a_login_is_a_sentence(tmp_path: Path) -> None:
    a_store(tmp_path)
    found = run(tmp_path, "--host", "0.0.0.0")
    assert found.returncode == 64 and "nobody would have to log in" in found.stderr and found.stderr.count("\n") == 1
    short = run(tmp_path, "--host", "0.0.0.0", STEM_DASHBOARD_TOKEN="short")
    assert short.returncode == 64 and "16 characters" in short.stderr
    missing = run(tmp_path, "--password-file", "nothing")
    assert missing.returncode == 64 and missing.stderr.endswith("stem dashboard password NAME --file nothing\n")
    assert "(No such file or directory)" in missing.stderr


def test_a_store_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    found = run(tmp_path, "--port", "0")
    assert found.returncode == 1 and "There is no store here" in found.stderr


def test_a_missing_package_is_a_sentence(tmp_path: Path) -> None:
    a_store(tmp_path)
    (tmp_path / "jinja2.py").write_text("raise ImportError('not here', name='jinja2')")
    found = run(tmp_path, "--port", "0", PYTHONPATH=str(tmp_path))
    assert found.returncode == 64 and "pip install 'stem-tasks[dashboard]'" in found.stderr


def test_a_password_is_read_from_a_pipe_into_a_file_for_its_owner(tmp_path: Path) -> None:
    found = run(tmp_path, "password", "ada", "--role", "viewer", given="correct horse battery\n")
    assert (found.returncode, found.stdout) == (0, "ada is a viewer, in dashboard.passwords.\n")
    path = tmp_path / "dashboard.passwords"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith("ada:viewer:$argon2id$")
    assert run(tmp_path, "password", "ada", given="short\n").returncode == 64
    assert run(tmp_path, "password", "a:b", given="correct horse battery\n").returncode == 64


def a_store(directory: Path) -> None:
    with Stem(f"sqlite:///{directory}/stem.db") as app:
        app.store.upkeep.now()


def _environment(directory: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STEM_")}
    return {**kept, "STEM_BROKER_URL": f"sqlite:///{directory}/stem.db"}


def _page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as page:
        return str(page.read().decode())
