"""`stem completion`: scripts that a shell accepts, and words from the store."""

import shutil
import subprocess
import time
from functools import partial

import pytest

from acceptance.shell import STEM, Shell
from stem.contracts.store import Store
from stem.core.heartbeat import Heartbeat
from support.builders import a_push
from support.stores.calls import fail_for_good
from support.until import until

ID = "0197f3a2-7c1e-7d44-9b0a-3f6a5b2c1d00"


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: Shell, name: str) -> None:
    script = shell.out("completion", name)
    assert "_STEM_COMPLETE" in script
    program = shutil.which(name)
    if program is not None:
        subprocess.run([program, "-n", "-c", script], check=True, env=shell.variables)


def test_an_unknown_shell_is_refused(shell: Shell) -> None:
    assert "tcsh" in shell.refusal("completion", "tcsh", code=64)


def completed(shell: Shell, line: str) -> list[str]:
    """What bash would be offered at the end of the line."""
    words = line.split(" ")
    asked = shell.at(_STEM_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1))
    done = subprocess.run([STEM], cwd=asked.directory, env=asked.variables, capture_output=True, text=True, timeout=30)
    assert done.stderr == "", done
    return [each.partition(",")[2] for each in done.stdout.splitlines() if each]


@pytest.fixture
def busy(local_store: Store) -> Store:
    fail_for_good(local_store, ID)
    local_store.broker.push([a_push("other", name="mail.send", queue="mail"), a_push("evil", name="mail.\x1b[31m")])
    beat = Heartbeat(
        worker_id="alpha@web1", namespace="stem", host="web1", pid=1, uptime_seconds=1.0, concurrency=1, in_flight=0,
        queues=["reports"], extras={"tasks": {"reports.make": ["reports", 3]}},
    )  # fmt: skip
    local_store.heartbeats.beat(beat, ttl_seconds=60)
    return local_store


@pytest.mark.usefixtures("busy")
def test_names_and_ids_come_from_the_store(shell: Shell) -> None:
    assert "observe" in completed(shell, "stem o") and "queues" in completed(shell, "stem observe q")
    offers = {
        "stem enqueue mail.": ["mail.send"],
        "stem enqueue rep": ["reports.make"],
        "stem queue peek ": ["default", "mail", "reports"],
        "stem task list --queue m": ["mail"],
        "stem task show 0197": [ID],
        "stem dlq replay ": [ID],
        "stem worker ping --worker a": ["alpha@web1"],
        "stem worker pause re": ["reports"],
        "stem worker revoke 0": [ID],
        "stem observe events --id o": ["other"],
    }
    for line, offered in offers.items():
        until(partial(is_offered, shell, line, offered))  # a busy machine may miss the deadline


def is_offered(shell: Shell, line: str, offered: list[str]) -> bool:
    return completed(shell, line) == offered


def test_without_a_store_nothing_is_offered_and_nothing_is_made(shell: Shell) -> None:
    assert completed(shell, "stem task show ") == []
    assert shell.files == []


def test_a_store_that_does_not_answer_is_not_waited_for(shell: Shell) -> None:
    import socket

    with socket.socket() as silent:  # it accepts, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        there = shell.at(STEM_BROKER_URL=f"redis://127.0.0.1:{silent.getsockname()[1]}/0")
        began_at = time.monotonic()
        assert completed(there, "stem queue peek ") == []
        assert time.monotonic() - began_at < 5.0  # of which most is for starting
