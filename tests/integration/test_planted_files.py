"""What another user may have planted beside our files (links, pipes, folders of their own) is neither followed nor used."""

import os
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stem.backends import connect
from stem.backends.sqlite.connection.doorbell import Doorbell
from stem.contracts.store import Store
from stem.core.errors import ConfigError, StoreRefused
from stem.core.settings.app import Settings
from stem.runtime import pidfile
from stem.runtime.daemon import LaunchPlan, last_lines, launch
from support.builders import a_push

A_WEEK_AGO = time.time() - 7 * 86400
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stem.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened = connect(f"sqlite:///{path}", Settings())
    yield opened
    opened.upkeep.close()


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder of old files that are none of our business."""
    folder = tmp_path / "precious"
    folder.mkdir()
    for name in ("diary", "1-1=1:queue"):
        (folder / name).write_text("dear me")
        os.utime(folder / name, (A_WEEK_AGO, A_WEEK_AGO))
    return folder


def mode(path: Path | str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


class TestDoorbell:
    def test_an_enqueue_empties_no_folder_behind_a_planted_link(self, store: Store, path: Path, precious: Path) -> None:
        os.symlink(precious, f"{path}-bell")
        store.broker.push([a_push()])
        assert not store.broker.wait(["other"], timeout_seconds=0.05)
        assert sorted(os.listdir(precious)) == ["1-1=1:queue", "diary"]

    def test_a_ring_removes_nothing_but_sockets(self, store: Store, path: Path, precious: Path) -> None:
        os.rename(precious, f"{path}-bell")
        store.broker.push([a_push()])
        assert sorted(os.listdir(f"{path}-bell")) == ["1-1=1:queue", "diary"]

    @pytest.mark.parametrize(
        "plant",
        [
            lambda folder: os.chmod(folder, 0o777),
            pytest.param(lambda folder: os.chown(folder, 65534, 65534), marks=needs_root),
        ],
    )
    def test_a_folder_in_which_others_may_listen_is_not_rung(self, path: Path, plant: object) -> None:
        """They would learn the names of queues and tasks."""
        path.touch(0o600)
        os.mkdir(f"{path}-bell")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as spy:
            spy.bind(os.path.relpath(f"{path}-bell/1-1"))
            spy.setblocking(False)
            Doorbell(path).ring(["1:queue:default"])
            assert spy.recv(100) == b"1:queue:default", "our own folder is rung"
            plant(f"{path}-bell")  # type: ignore[operator]
            Doorbell(path).ring(["1:queue:default"])
            with pytest.raises(BlockingIOError):
                spy.recv(100)

    def test_the_folder_is_as_open_as_the_file(self, path: Path, store: Store) -> None:
        store.broker.wait(["default"], timeout_seconds=0.01)
        assert mode(f"{path}-bell") == 0o700
        os.rmdir(f"{path}-bell")
        path.chmod(0o660)
        store.broker.wait(["default"], timeout_seconds=0.01)
        assert mode(f"{path}-bell") == 0o750, "the umask still counts"


class TestStore:
    def test_the_file_and_its_log_are_their_owners_alone(self, store: Store, path: Path) -> None:
        store.broker.push([a_push()])
        assert [mode(f"{path}{tail}") for tail in ("", "-wal", "-shm")] == [0o600] * 3

    def test_a_file_that_was_there_keeps_its_mode(self, path: Path) -> None:
        path.touch()
        path.chmod(0o660)
        opened = connect(f"sqlite:///{path}", Settings())
        opened.broker.push([a_push()])
        assert [mode(f"{path}{tail}") for tail in ("", "-wal")] == [0o660] * 2
        opened.upkeep.close()

    def test_nothing_is_made_behind_a_link_to_nothing(self, path: Path, tmp_path: Path) -> None:
        path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StoreRefused, match="is a link to a file that does not exist"):
            connect(f"sqlite:///{path}", Settings())
        assert not (tmp_path / "elsewhere").exists()

    def test_pruning_empties_no_folder_behind_a_planted_link(self, store: Store, path: Path, precious: Path) -> None:
        os.symlink(precious, f"{path}-stage")
        store.upkeep.prune()
        assert sorted(os.listdir(precious)) == ["1-1=1:queue", "diary"]


class TestPidFile:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return tmp_path / "alpha.pid"

    def test_a_planted_draft_is_not_written_through(self, file: Path, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.write_text("mine")
        (tmp_path / f".alpha.pid.{os.getpid()}").symlink_to(victim)
        file.symlink_to(victim)
        pidfile.write_own(file)
        assert victim.read_text() == "mine"
        assert not file.is_symlink() and isinstance(pidfile.read(file), pidfile.Running)

    def test_others_may_read_it_whatever_the_umask_and_not_write_it(self, file: Path) -> None:
        for umask in (0, 0o077):
            os.umask(umask)
            pidfile.write_own(file)
            assert mode(file) == 0o644

    def test_a_link_and_a_second_name_are_refused(self, file: Path, tmp_path: Path) -> None:
        pidfile.write_own(tmp_path / "real.pid")
        file.symlink_to("real.pid")
        assert pidfile.read(file) == pidfile.Unreadable("it is a symbolic link")
        file.unlink()
        os.link(tmp_path / "real.pid", file)
        assert pidfile.read(file) == pidfile.Unreadable("it has a second name (a hard link)")

    def test_a_pipe_holds_nobody_up(self, file: Path) -> None:
        os.mkfifo(file)
        assert pidfile.read(file) == pidfile.Unreadable("it is not a regular file")

    def test_files_that_others_may_write_are_refused(self, file: Path) -> None:
        pidfile.write_own(file)
        assert _doubt(file) == ""
        file.chmod(0o664)
        assert "other users may write to it" in _doubt(file)
        file.write_text(f"{os.getpid()}\n")
        file.chmod(0o644)
        assert "does not say when its process began" in _doubt(file)

    @needs_root
    def test_the_file_of_another_user_is_doubted_even_if_it_names_their_process(self, file: Path) -> None:
        def plant() -> None:
            pidfile.write_own(file)
            os.chown(file, 65534, 65534)
            os.setuid(65534)

        stranger = subprocess.Popen(["sleep", "60"], preexec_fn=plant)
        try:
            assert "it belongs to user 65534; run this as that user" in _doubt(file)
        finally:
            stranger.kill()
            stranger.wait()


class TestLogFile:
    @pytest.fixture
    def plan(self, tmp_path: Path) -> LaunchPlan:
        files = {"pidfile": tmp_path / "alpha.pid", "logfile": tmp_path / "alpha.log", "workdir": tmp_path}
        return LaunchPlan(command=("echo", "said"), environment=dict(os.environ), **files)

    def test_it_is_not_for_everybody(self, plan: LaunchPlan) -> None:
        _run(plan)
        assert mode(plan.logfile) == 0o640 and last_lines(plan.logfile) == ["said"]

    def test_nothing_is_written_or_read_through_a_planted_link(self, plan: LaunchPlan, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.write_text("mine\n")
        plan.logfile.symlink_to(victim)
        with pytest.raises(ConfigError, match=r"alpha\.log cannot be used: it is a symbolic link"):
            launch(plan)
        assert victim.read_text() == "mine\n" and not plan.pidfile.exists()
        assert last_lines(plan.logfile) == []
        plan.logfile.unlink()
        os.link(victim, plan.logfile)
        with pytest.raises(ConfigError, match="it has a second name"):
            launch(plan)

    def test_a_pipe_holds_nobody_up(self, plan: LaunchPlan) -> None:
        os.mkfifo(plan.logfile)
        with pytest.raises(ConfigError, match=r"alpha\.log cannot be used"):
            launch(plan)

    @needs_root
    def test_another_users_log_is_not_written_to(self, plan: LaunchPlan) -> None:
        plan.logfile.touch()
        os.chown(plan.logfile, 65534, 65534)
        with pytest.raises(ConfigError, match="it belongs to user 65534"):
            launch(plan)


def _run(plan: LaunchPlan) -> None:
    process = launch(plan)
    assert isinstance(process, subprocess.Popen)
    process.wait()


def _doubt(file: Path) -> str:
    found = pidfile.read(file)
    assert isinstance(found, pidfile.Running)
    return found.doubt
