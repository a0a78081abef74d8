"""Stores that can be taken away and given back."""

import signal
import socket
import sqlite3
import time
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path

import psycopg
import redis

from support.background import Errand
from support.servers import PostgresServer, RedisServer
from support.stores.process_targets import keep_the_file_locked
from support.until import until
from support.web.hanging_proxy import HangingProxy


class Outage(ABC):
    """One store that can be taken away and given back."""

    url: str

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def end(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class RedisKilled(Outage):
    def __init__(self, place: Path) -> None:
        self.server = RedisServer("--appendfsync", "always")
        self.url = self.server.url

    def begin(self) -> None:
        self.server.kill()

    def end(self) -> None:
        if self.server.process is not None and self.server.process.poll() is not None:
            self.server.start()

    def close(self) -> None:
        self.server.close()


class RedisFrozen(RedisKilled):
    def begin(self) -> None:
        assert self.server.process is not None
        self.server.process.send_signal(signal.SIGSTOP)

    def end(self) -> None:
        assert self.server.process is not None
        self.server.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.end()
        super().close()


class RedisReset(RedisKilled):
    def begin(self) -> None:
        with redis.Redis(port=self.server.port) as client:
            for kind in ("normal", "pubsub"):
                client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")

    def end(self) -> None: ...


class PostgresRestarted(Outage):
    def __init__(self, place: Path) -> None:
        self.server = PostgresServer()
        self.url = self.server.url
        self.is_down = False

    def begin(self) -> None:
        self.server.stop()
        self.is_down = True

    def end(self) -> None:
        if self.is_down:
            self.server.start()
        self.is_down = False

    def close(self) -> None:
        self.server.close()


class PostgresFrozen(PostgresRestarted):
    def begin(self) -> None:
        self.server.signal(signal.SIGSTOP)
        self.is_down = True

    def end(self) -> None:
        if self.is_down:
            self.server.signal(signal.SIGCONT)
        self.is_down = False

    def close(self) -> None:
        self.end()
        super().close()


class PostgresReset(PostgresRestarted):
    def begin(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as conn:
            conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def end(self) -> None: ...


class Hanging(Outage):
    """The server itself is well; what is in front of it accepts connections and answers nothing."""

    proxy: HangingProxy

    def begin(self) -> None:
        self.proxy.hang()

    def end(self) -> None:
        self.proxy.go_on()


class RedisHanging(Hanging):
    def __init__(self, place: Path) -> None:
        self.server = RedisServer()
        self.proxy = HangingProxy(lambda: socket.create_connection(("127.0.0.1", self.server.port)))
        self.url = f"redis://127.0.0.1:{self.proxy.port}/0"

    def close(self) -> None:
        self.proxy.close()
        self.server.close()


class PostgresHanging(Hanging):
    def __init__(self, place: Path) -> None:
        self.server = PostgresServer()
        self.proxy = HangingProxy(self._connected)
        self.url = f"postgresql://postgres:@127.0.0.1:{self.proxy.port}/postgres"

    def close(self) -> None:
        self.proxy.close()
        self.server.close()

    def _connected(self) -> socket.socket:
        opened = socket.socket(socket.AF_UNIX)
        opened.connect(f"{self.server.socket_directory}/.s.PGSQL.{self.server.port}")
        return opened


class SqliteLocked(Outage):
    def __init__(self, place: Path) -> None:
        self.file = place / "stem.db"
        self.url = f"sqlite:///{self.file}"
        self.holder: Errand[None] | None = None

    def begin(self) -> None:
        self.holder = Errand(keep_the_file_locked, self.url, "unused", str(self.file))
        until(self._is_locked)

    def end(self) -> None:
        if self.holder is not None:
            self.holder.kill()
            self.holder = None

    def close(self) -> None:
        self.end()

    def _is_locked(self) -> bool:
        with closing(sqlite3.connect(self.file, timeout=0, isolation_level=None)) as conn:
            try:
                conn.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
            conn.execute("ROLLBACK")
            return False


def lasts(outage: Outage, seconds: float) -> None:
    """The store is away for this long."""
    outage.begin()
    end = time.monotonic() + seconds
    until(lambda: time.monotonic() > end, seconds=seconds + 1, every=0.05)
    outage.end()
