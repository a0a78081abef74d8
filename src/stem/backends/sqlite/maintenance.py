"""Diagnose, prune and close an SQLite store."""

import os
import sqlite3
import time

from stem.backends.sqlite.namespace import SqliteNamespace
from stem.backends.sqlite.pruning import Pruner
from stem.contracts.store import Diagnosis, Upkeep

_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "glusterfs", "ceph", "lustre"})


class SqliteUpkeep(Upkeep):
    def __init__(self, namespace: SqliteNamespace, pruner: Pruner) -> None:
        self._namespace = namespace
        self._pruner = pruner

    def now(self) -> float:
        return self._namespace.clock()

    def diagnose(self) -> Diagnosis:
        began = time.perf_counter()
        with self._namespace.database.reading() as connection:
            (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
        latency_seconds = time.perf_counter() - began
        return Diagnosis(
            backend="sqlite",
            server=f"SQLite {sqlite3.sqlite_version}, {self._namespace.database.path}",
            latency_seconds=latency_seconds,
            warnings=self._warnings(journal, synchronous),
        )

    def prune(self) -> int:
        return self._pruner.prune()

    def close(self) -> None:
        self._namespace.database.close()

    def _warnings(self, journal: str, synchronous: int) -> list[str]:
        warnings = []
        if journal != "wal":
            warnings.append(
                f"The journal mode is {journal}, so readers and writers wait for each other; "
                "run PRAGMA journal_mode = WAL while nothing else has the file open."
            )
        if synchronous < 2:
            warnings.append(
                "Writes survive a killed process but the last ones may not survive a power cut; use ?synchronous=full."
            )
        if self._file_system() in _NETWORK:
            warnings.append("The file is on a network file system, where SQLite can lose data; use a local disk.")
        return warnings

    def _file_system(self) -> str:
        """The type of the mount that holds the file; unknown where the system does not tell."""
        path = os.path.realpath(self._namespace.database.path)
        try:
            with open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts:
                known = [line.split()[1:3] for line in mounts]
        except OSError:
            return ""
        holding = [(len(point), kind) for point, kind in known if path.startswith(point.rstrip("/") + "/")]
        return max(holding, default=(0, ""))[1]
