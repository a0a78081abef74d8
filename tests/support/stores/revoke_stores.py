"""Revoke stores of every technology, and what tests ask other processes to do with them."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from threading import Barrier
from typing import Any

import psutil

from stem.client.stores import RevokeStore, connect_revokes
from stem.contracts.store import Store
from stem.core.revoke import RevokeRequest
from stem.core.settings.app import Settings
from stem.worker.admission.revoke_cache import RevokeCache


def open_revokes(url: str, namespace: str) -> RevokeStore:
    return connect_revokes(Settings(revokes_url=url, namespace=namespace, timeout_seconds=30.0))


def revoke_many(_: Any, url: str, namespace: str, name: str, number: int, gate: Barrier) -> list[int]:
    store = open_revokes(url, namespace)
    gate.wait(60)
    versions = [store.revokes.put([RevokeRequest(task_id=f"{name}-{n}")])[0].version for n in range(number)]
    store.close()
    return versions


def revoke_until_killed(_: Any, url: str, namespace: str, name: str, notes: Path) -> None:
    """Notes each put that returned: first id, size, first version."""
    store = open_revokes(url, namespace)
    log = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    n = 0
    while True:
        batch = [RevokeRequest(task_id=f"{name}-{n + k}", reason="x" * 500) for k in range(1 + n % 7)]
        if n % 5 == 0:
            store.revokes.put([RevokeRequest(task_id=f"{name}-brief-{n}", expires_seconds=0.001)])
            store.revokes.prune()
        marks = store.revokes.put(batch)
        os.write(log, f"{name}-{n} {len(marks)} {marks[0].version}\n".encode())
        n += len(batch)


def hydrate_and_measure(open_store: Callable[[], Store]) -> tuple[int, float, float, int]:
    """In a process of its own: marks, seconds of wall and of processor, and bytes that it has grown by."""
    store = open_store()
    revoked = RevokeCache(store.revokes, store.upkeep.now)
    store.revokes.since(0, limit=1)
    before, wall, cpu = psutil.Process().memory_info().rss, time.perf_counter(), time.process_time()
    count = revoked.load()
    taken = time.perf_counter() - wall, time.process_time() - cpu
    return count, *taken, psutil.Process().memory_info().rss - before
