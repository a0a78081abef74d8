"""Allow one writer per lake, by a lock in the store that the lake is filled from."""

import os
import socket
import time
from contextlib import suppress
from threading import Event

from stem.contracts.store import Store
from stem.core.errors import LakeRefused, StemError
from stem.pipeline.lake.lake import Lake
from stem.runtime.process import start_ticks
from stem.runtime.service import Ticker

LEASE_SECONDS = 15.0
_BOOT = "boot+"  # start times are in clock ticks since boot


class LakeLock:
    """Held while entered; `is_lost` says that another process may have it. Entering raises LakeRefused while another has it."""

    def __init__(self, store: Store, lake: Lake) -> None:
        self._store = store
        self._lake = lake
        self._name = f"pipeline:{lake.id}"
        self._owner = _this_process()
        self._lost = Event()
        self._renewed_at = 0.0
        self._renewer = Ticker("lake-lock", LEASE_SECONDS / 5, self._renew)

    @property
    def is_lost(self) -> bool:
        return self._lost.is_set()

    def __enter__(self) -> "LakeLock":
        if self._acquire() is None:
            holder = self._store.locks.owner(self._name)
            if holder is not None and _is_gone(holder):
                self._store.locks.release(self._name, owner=holder)
            if self._acquire() is None:
                raise LakeRefused(
                    f"Another pipeline ({holder or 'unknown'}) fills the lake at {self._lake.root}; stop that one, or "
                    f"wait {LEASE_SECONDS:.0f} s if it was killed on another machine."
                )
        self._renewed_at = time.monotonic()
        self._renewer.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._renewer.stop()
        with suppress(StemError):  # the store is away; the lock expires
            self._store.locks.release(self._name, owner=self._owner)

    def _acquire(self) -> int | None:
        return self._store.locks.acquire(self._name, owner=self._owner, ttl_seconds=LEASE_SECONDS)

    def _renew(self) -> None:
        """If the store is away for longer than the lease, another process may get the lock."""
        try:
            is_ours = self._store.locks.renew(self._name, owner=self._owner, ttl_seconds=LEASE_SECONDS)
        except StemError:
            is_ours = time.monotonic() - self._renewed_at < LEASE_SECONDS
        else:
            self._renewed_at = time.monotonic()
        if not is_ours:
            self._lost.set()


def _this_process() -> str:
    return f"{socket.gethostname()}:{os.getpid()}:{_BOOT}{start_ticks(os.getpid()) or ''}"


def _is_gone(holder: str) -> bool:
    """Whether the holder was a process of this machine that was killed. Holders that other versions of Stem have named may
    not say when they started."""
    host, pid, start = holder.rsplit(":", 2)
    if host != socket.gethostname():
        return False
    started = start_ticks(int(pid))
    return started is None or (start.startswith(_BOOT) and start != f"{_BOOT}{started}")
