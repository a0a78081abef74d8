"""One writer a lake: a lock in the store that the lake is filled from, kept for as long as the writer lives."""

import os
import socket
import time
from contextlib import suppress
from threading import Event

from stem.contracts.store import Store
from stem.core.errors import LakeRefused, StemError
from stem.pipeline.lake import Lake
from stem.runtime.process import start_ticks
from stem.runtime.service import Ticker

LEASE_SECONDS = 15.0
_BOOT = "boot+"  # a start is told in clock ticks since then


class Holding:
    """Entered: the lake is ours. `is_lost` once it no longer is. Raises LakeRefused while another has it."""

    def __init__(self, store: Store, lake: Lake) -> None:
        self._store = store
        self._lake = lake
        self._name = f"pipeline:{lake.id}"
        self._owner = _this_process()
        self._lost = Event()
        self._heard_at = 0.0
        self._keeper = Ticker("lake-lock", LEASE_SECONDS / 5, self._renew)

    @property
    def is_lost(self) -> bool:
        return self._lost.is_set()

    def __enter__(self) -> "Holding":
        if self._acquire() is None:
            holder = self._store.locks.owner(self._name)
            if holder is not None and _is_gone(holder):
                self._store.locks.release(self._name, owner=holder)
            if self._acquire() is None:
                raise LakeRefused(
                    f"Another pipeline ({holder or 'unknown'}) fills the lake at {self._lake.root}; stop that one, or "
                    f"wait {LEASE_SECONDS:.0f} s if it was killed on another machine."
                )
        self._heard_at = time.monotonic()
        self._keeper.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._keeper.stop()
        with suppress(StemError):  # the store is away, and the lock will run out
            self._store.locks.release(self._name, owner=self._owner)

    def _acquire(self) -> int | None:
        return self._store.locks.acquire(self._name, owner=self._owner, ttl_seconds=LEASE_SECONDS)

    def _renew(self) -> None:
        """A store that is away for longer than the lease may have given the lake to another."""
        try:
            is_ours = self._store.locks.renew(self._name, owner=self._owner, ttl_seconds=LEASE_SECONDS)
        except StemError:
            is_ours = time.monotonic() - self._heard_at < LEASE_SECONDS
        else:
            self._heard_at = time.monotonic()
        if not is_ours:
            self._lost.set()


def _this_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{_BOOT}{start_ticks(os.getpid()) or ''}"


def _is_gone(holder: str) -> bool:
    """A holder on this machine that runs no more: killed, for else it had let go. Names that other versions of Stem give
    themselves tell no more than the process id."""
    host, pid, born = holder.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    started = start_ticks(int(pid))
    return started is None or (born.startswith(_BOOT) and born != f"{_BOOT}{started}")
