"""Revoke stores of every technology, and what tests ask other processes to do with them."""

import os
from pathlib import Path
from threading import Barrier
from typing import Any

from stem.backends import RevokeStore, connect_revokes
from stem.core.config import Settings
from stem.core.revoke import RevokeRequest


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
