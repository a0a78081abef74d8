"""The real `stem` executable, in a folder and an environment of its own."""

import ctypes
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acceptance.lab import Lab, a_lab
from acceptance.shell import BIN, Shell
from stem.backends import connect
from stem.contracts.store import Store
from stem.core.settings.app import Settings


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """No store named: what is enqueued here goes into ./stem.db."""
    directory = tmp_path / "shell"
    directory.mkdir()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("STEM_", "PYTHON"))}
    plain = {name: value for name, value in inherited.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return Shell(directory, plain | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"})


@pytest.fixture
def stem(shell: Shell, durable_url: str, namespace: str) -> Shell:
    """The environment names a store, of each technology in turn, and the test's namespace."""
    return shell.at(STEM_BROKER_URL=durable_url, STEM_NAMESPACE=namespace)


@pytest.fixture
def local_store(shell: Shell) -> Iterator[Store]:
    """The store of `shell`, for tests whose point is the command and not the technology."""
    opened = connect(f"sqlite:///{shell.directory}/stem.db", Settings())
    yield opened
    opened.upkeep.close()


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Where nobody listens, and nobody else can begin to meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.fixture
def unprivileged() -> Callable[[], None]:
    """For `preexec_fn`: let file permissions bind the child even where the tests run as root."""
    libc = ctypes.CDLL(None, use_errno=True)
    drop_bounding, dac_override = 24, 1

    def drop() -> None:
        libc.prctl(drop_bounding, dac_override, 0, 0, 0)

    return drop


@pytest.fixture
def lab(shell: Shell, tmp_path: Path, namespace: str) -> Iterator[Lab]:
    """On SQLite, for what does not depend on the store."""
    with a_lab(shell, f"sqlite:///{tmp_path}/stem.db", namespace) as opened:
        yield opened


@pytest.fixture
def any_lab(shell: Shell, durable_url: str, namespace: str) -> Iterator[Lab]:
    """On each store in turn."""
    with a_lab(shell, durable_url, namespace) as opened:
        yield opened
