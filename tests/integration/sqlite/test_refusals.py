"""What a person gets who points Stem at the wrong file: one sentence, and a file that is as it was."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stem.backends import connect
from stem.backends.sqlite.broker import SqliteBroker
from stem.core.errors import ConfigError, StoreRefused, StoreUnavailable
from stem.core.settings.app import Settings
from support.builders import a_push, pushes


def refusal(url: str) -> str:
    with pytest.raises((ConfigError, StoreRefused)) as caught:
        connect(url, Settings())
    return str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///",
        "sqlite://host/stem.db",
        "sqlite:///:memory:",
        "sqlite:///stem.db#part",
        "sqlite:///stem.db?mode=ro",
        "sqlite:///stem.db?synchronous=off",
    ],
)
def test_a_url_that_names_no_file_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigError, match=r"use |the only one"):
        connect(url, Settings())


def test_a_relative_path_is_of_this_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = connect("sqlite:///some%20name.db", Settings())
    monkeypatch.chdir("/")
    store.broker.push(pushes("a"))
    store.upkeep.close()
    assert (tmp_path / "some name.db").exists()


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    assert "create it first" in refusal(f"sqlite:///{tmp_path}/none/stem.db")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    assert "is a directory" in refusal(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("content", [b"hello", b"\x00" * 100, b"# a text\n" * 1000])
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    assert "not an SQLite database" in refusal(f"sqlite:///{path}")
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "stem.db").touch()
    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    assert store.broker.push([a_push()])[0].created
    store.upkeep.close()


def test_a_database_with_tables_of_its_own_becomes_a_store_beside_them(tmp_path: Path) -> None:
    made(tmp_path / "shop.db", "CREATE TABLE orders (id)", "PRAGMA user_version = 7")
    store = connect(f"sqlite:///{tmp_path}/shop.db", Settings())
    assert store.broker.push([a_push()])[0].created
    store.upkeep.close()
    connection = sqlite3.connect(tmp_path / "shop.db")
    assert connection.execute("PRAGMA user_version").fetchone() == (7,)
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE stem_tasks (id)", "CREATE TABLE stem_meta (colour)", "CREATE TABLE stem_meta (key, value)"],
)
def test_tables_of_our_prefix_that_are_not_ours_are_left_alone(tmp_path: Path, statement: str) -> None:
    path = made(tmp_path / "other.db", statement)
    before = path.read_bytes()
    assert "not Stem's" in refusal(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_newer_schema_asks_for_an_upgrade(tmp_path: Path) -> None:
    connect(f"sqlite:///{tmp_path}/stem.db", Settings()).upkeep.close()
    made(tmp_path / "stem.db", "UPDATE stem_meta SET value = 99 WHERE key = 'schema_version'")
    assert "upgrade stem-tasks" in refusal(f"sqlite:///{tmp_path}/stem.db")


def test_a_full_disk_is_said_and_nothing_is_half_written(tmp_path: Path) -> None:
    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    assert isinstance(store.broker, SqliteBroker)
    with store.broker._namespace.database.bare() as connection:
        connection.execute("PRAGMA max_page_count = 60")
    with pytest.raises(StoreRefused, match="disk is full; free some space"):
        store.broker.push([a_push(args={"text": "x" * 1000}) for _ in range(500)])
    assert store.broker.depth() == {} and store.events.head() is None
    assert store.broker.push([a_push()])[0].created
    store.upkeep.close()


def test_a_file_that_was_taken_away_is_said(tmp_path: Path) -> None:
    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    store.broker.push([a_push()])
    (tmp_path / "stem.db").rename(tmp_path / "elsewhere.db")
    with pytest.raises(StoreRefused, match="moved or deleted"):
        store.broker.push([a_push()])
    (tmp_path / "elsewhere.db").rename(tmp_path / "stem.db")
    store.upkeep.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user can reach, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="stem-refused-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_read_only_file_or_directory_is_said(open_folder: Path) -> None:
    path = open_folder / "stem.db"
    connect(f"sqlite:///{path}", Settings()).upkeep.close()
    path.chmod(0o444)
    open_folder.chmod(0o555)
    assert "not writable" in as_nobody(f"sqlite:///{path}")
    assert "not writable" in as_nobody(f"sqlite:///{open_folder}/new.db")
    open_folder.chmod(0o777)
    assert "give it permission" in as_nobody(f"sqlite:///{path}")


def as_nobody(url: str) -> str:
    """Connect without the rights of root, to whom nothing is read-only. Modules are loaded while they can be."""
    script = """
import os, sys
import stem.backends.sqlite
from stem.backends import connect
from stem.core.settings.app import Settings
from stem.core.errors import StoreRefused
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    connect(sys.argv[1], Settings())
except StoreRefused as error:
    print(error)
"""
    finished = subprocess.run([sys.executable, "-c", script, url], capture_output=True, text=True, check=True, cwd="/")
    return finished.stdout


def made(path: Path, *statements: str) -> Path:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return path


def test_the_file_is_never_opened_beside_sqlite(tmp_path: Path) -> None:
    """Closing any handle on a file drops all locks that the process holds on it, so a second store must open none."""
    path = tmp_path / "stem.db"
    connect(f"sqlite:///{path}", Settings()).upkeep.close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA journal_mode = DELETE")  # here the locks are on the file itself
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreUnavailable, match="locked by another writer"):
        connect(f"sqlite:///{path}", Settings(timeout_seconds=0.1))
    probe = f"import sqlite3; sqlite3.connect({os.fspath(path)!r}, timeout=0).execute('BEGIN IMMEDIATE')"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, check=False).returncode != 0
    holder.close()
