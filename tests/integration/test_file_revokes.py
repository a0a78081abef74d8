"""A file of revokes: torn lines, killed writers, files swapped behind its back, and what cannot be a revoke file."""

import fcntl
import os
import random
import resource
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from stem.client.stores import RevokeStore, connect_revokes, with_absolute_paths
from stem.core.errors import ConfigError, StoreRefused, StoreUnavailable
from stem.core.revoke import RevokeRequest
from stem.core.settings.app import Settings
from support.background import Errand
from support.stores.revoke_stores import open_revokes, revoke_until_killed
from support.until import until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "revokes.stem"


@pytest.fixture
def store(path: Path) -> Iterator[RevokeStore]:
    opened = open_revokes(str(path), "stem")
    yield opened
    opened.close()


def put(store: RevokeStore, *ids: str) -> list[int]:
    return [mark.version for mark in store.revokes.put([RevokeRequest(task_id=id) for id in ids])]


def ids(store: RevokeStore) -> list[str]:
    return [mark.task_id for mark in store.revokes.since(0, limit=1000)]


def test_a_mark_is_a_line_of_json(store: RevokeStore, path: Path) -> None:
    store.revokes.put([RevokeRequest(task_id="a", reason="two\nlines", terminate=True)])
    (line,) = path.read_text().splitlines()
    assert line.startswith('{"namespace":"stem","version":1,"taskId":"a","createdAt":"20')
    assert line.endswith('"reason":"two\\nlines","terminate":true}')


@pytest.mark.parametrize("cut", range(2, 60, 7))
def test_a_torn_line_is_passed_over_and_the_next_put_stands_on_its_own(
    store: RevokeStore, path: Path, cut: int
) -> None:
    put(store, "a")
    put(store, "torn")
    os.truncate(path, path.stat().st_size - cut)
    fresh = open_revokes(str(path), "stem")
    assert ids(fresh) == ids(store) == ["a"]
    assert put(fresh, "b") == [2]
    assert ids(fresh) == ids(store) == ["a", "b"]
    fresh.close()


def test_a_line_torn_right_at_its_end_counts_once_somebody_writes_after_it(store: RevokeStore, path: Path) -> None:
    put(store, "a")
    os.truncate(path, path.stat().st_size - 1)
    assert put(store, "b") == [2]
    assert ids(store) == ["a", "b"]


@pytest.mark.parametrize("whole_lines", [1, 2])
def test_of_a_put_that_was_cut_short_nothing_counts(store: RevokeStore, path: Path, whole_lines: int) -> None:
    put(store, "a")
    put(store, "x", "y", "z")
    kept = path.read_bytes().splitlines(keepends=True)[: 1 + whole_lines]
    path.write_bytes(b"".join(kept))
    assert ids(store) == ["a"]
    assert put(store, "b") == [2]
    assert put(store, "c", "d") == [3, 4]
    assert ids(store) == ["a", "b", "c", "d"]


def test_rubbish_between_marks_is_passed_over(store: RevokeStore, path: Path) -> None:
    put(store, "a")
    with path.open("ab") as stream:
        stream.write(b"\x00\x00\xff{]\n\n[1,2]\n{}\n")
    put(store, "b")
    assert ids(store) == ["a", "b"]


def test_pruning_leaves_only_what_is_in_force(store: RevokeStore, path: Path) -> None:
    path.chmod(0o640)
    follower = open_revokes(str(path), "stem")
    store.revokes.put([RevokeRequest(task_id="brief", expires_seconds=0.01)])
    for _ in range(3):
        put(store, "again")
    until(lambda: ids(follower) == ["again"])
    assert store.revokes.prune() == 1
    assert [line.count("taskId") for line in path.read_text().splitlines()] == [1, 0]
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(path.parent)) == ["revokes.stem"]
    assert (ids(follower), follower.revokes.version()) == (["again"], 4)
    assert put(follower, "b") == [5]
    assert ids(store) == ["again", "b"]
    follower.close()


def test_marks_replaced_often_do_not_pile_up(store: RevokeStore, path: Path) -> None:
    store.revokes.put([RevokeRequest(task_id="a") for _ in range(1500)])
    assert store.revokes.prune() == 0
    assert len(path.read_text().splitlines()) == 2
    assert store.revokes.version() == 1500


def test_a_file_that_changes_behind_its_back_is_read_anew(store: RevokeStore, path: Path, tmp_path: Path) -> None:
    put(store, "a", "b", "c")
    backup = path.read_bytes()
    put(store, "d", "e")
    assert ids(store) == list("abcde")
    path.write_bytes(backup)  # cut back in its place
    assert (ids(store), store.revokes.version()) == (list("abc"), 3)
    path.write_bytes(backup.replace(b'"taskId":"', b'"taskId":"other-'))  # longer, so that only its content tells
    assert ids(store) == ["other-a", "other-b", "other-c"]
    (tmp_path / "older").write_bytes(backup)
    (tmp_path / "older").replace(path)
    assert ids(store) == list("abc")
    path.unlink()
    assert (ids(store), store.revokes.version()) == ([], 0)
    assert put(store, "anew") == [1]
    assert ids(store) == ["anew"]


def test_a_new_file_is_its_owners_alone(store: RevokeStore, path: Path) -> None:
    put(store, "a")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_to_the_file_stays_a_link(path: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path.symlink_to(tmp_path / "real" / "marks")
    store = open_revokes(f"file://{path}", "stem")
    store.revokes.put([RevokeRequest(task_id="brief", expires_seconds=0.001), RevokeRequest(task_id="a")])
    until(lambda: store.revokes.prune() == 1)
    assert path.is_symlink() and (tmp_path / "real" / "marks").stat().st_size > 0
    assert ids(store) == ["a"]
    store.close()


def test_a_forked_child_reads_and_writes_for_itself(store: RevokeStore) -> None:
    put(store, "a")
    child = os.fork()
    if not child:
        os._exit(0 if ids(store) == ["a"] and put(store, "child") == [2] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert ids(store) == ["a", "child"]


def test_a_writer_waits_for_another_and_gives_up_at_the_deadline(path: Path) -> None:
    store = connect_revokes(Settings(revokes_url=str(path), timeout_seconds=0.05))
    put(store, "a")
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert ids(store) == ["a"]  # readers wait for nobody
        with pytest.raises(StoreUnavailable, match="stayed locked"):
            put(store, "b")
    assert put(store, "b") == [2]
    store.close()


def test_a_put_that_the_disk_refuses_leaves_nothing_behind(store: RevokeStore, path: Path) -> None:
    put(store, "a")
    before = path.read_bytes()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 300, len(before) + 300))
        try:
            put(store, *(f"n{n}" for n in range(50)))
        except StoreUnavailable:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert path.read_bytes() == before
    assert put(store, "b") == [2]


@pytest.mark.parametrize(
    ("url", "error", "sentence"),
    [
        ("file://host/revokes", ConfigError, "more than a path"),
        ("file:///revokes?x=1", ConfigError, "more than a path"),
        ("file://", ConfigError, "names no file"),
        ("{tmp}/", ConfigError, "names no file"),
        ("{tmp}", StoreRefused, "is a directory"),
        ("{tmp}/no/such/folder/revokes", StoreRefused, "create it first"),
        ("{tmp}/letter", StoreRefused, "left untouched"),
        ("{tmp}/" + "x" * 300, StoreRefused, "too long a name"),
        ("mysql://host/db", ConfigError, "not a store that Stem knows"),
    ],
)
def test_a_file_that_cannot_hold_revokes_is_refused(
    tmp_path: Path, url: str, error: type[Exception], sentence: str
) -> None:
    (tmp_path / "letter").write_text("Dear Ada,\n" * 9)
    with pytest.raises(error, match=sentence):
        connect_revokes(Settings(revokes_url=url.format(tmp=tmp_path)))
    assert (tmp_path / "letter").read_text() == "Dear Ada,\n" * 9


def test_a_relative_path_means_the_same_wherever_one_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = with_absolute_paths(Settings(revokes_url="revokes.stem"))
    monkeypatch.chdir("/")
    assert settings.revokes_url == str(tmp_path / "revokes.stem")
    store = connect_revokes(settings)
    put(store, "a")
    assert (tmp_path / "revokes.stem").exists()
    store.close()


def test_revokes_live_with_the_results_or_else_the_broker(tmp_path: Path) -> None:
    at: Callable[[str], str] = lambda name: f"sqlite:///{tmp_path}/{name}"  # noqa: E731
    broker = Settings(broker_url=at("broker"))
    results = Settings(broker_url=at("broker"), results_url=at("results"))
    apart = Settings(broker_url=at("broker"), results_url=at("results"), revokes_url=at("revokes"))
    for settings, name in ((broker, "broker"), (results, "results"), (apart, "revokes")):
        store = connect_revokes(settings)
        put(store, name)
        store.close()
        assert store.url == at(name)
        again = connect_revokes(Settings(revokes_url=at(name)))
        assert ids(again) == [name]
        again.close()


def test_no_mark_is_lost_whose_put_returned_whatever_is_killed(store: RevokeStore, path: Path, tmp_path: Path) -> None:
    """Three writers that also prune; again and again one is killed and replaced."""
    dice, notes = random.Random(7), tmp_path / "returned"
    hire = partial(Errand, revoke_until_killed, "memory://unused", "unused", str(path), "stem")
    writers = [hire(f"w{n}", notes) for n in range(3)]
    for n in range(3, 33):
        noted = len(notes.read_bytes()) if notes.exists() else 0
        until(lambda noted=noted: notes.exists() and len(notes.read_bytes()) > noted, seconds=30)  # type: ignore[misc]
        victim = dice.randrange(3)
        writers[victim].process.join(dice.uniform(0, 0.02))
        assert writers[victim].process.is_alive(), writers[victim].result()
        writers[victim].kill()
        writers[victim] = hire(f"w{n}", notes)
    until(lambda: notes.read_bytes().count(b"\n") > 60, seconds=60)
    for writer in writers:
        writer.kill()
    check_returned(store, notes)


def check_returned(store: RevokeStore, notes: Path) -> None:
    marks = {mark.task_id: mark for mark in store.revokes.since(0, limit=10**6)}
    versions = [mark.version for mark in marks.values()]
    assert versions == sorted(set(versions)) and store.revokes.version() >= versions[-1]
    returned = [line.split() for line in notes.read_text().splitlines()]
    assert len(returned) > 60
    for first, size, version in returned:
        name, _, number = first.rpartition("-")
        got = [marks[f"{name}-{int(number) + k}"].version for k in range(int(size))]
        assert got == list(range(int(version), int(version) + int(size)))
