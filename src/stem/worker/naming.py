"""Give every worker a unique name, by which commands, heartbeats and records tell workers apart."""

import logging
import os
import socket
from dataclasses import dataclass
from itertools import chain, count

from stem.contracts.locks import Locks
from stem.contracts.steering.heartbeats import Heartbeats

log = logging.getLogger("stem.worker")

MOST_CHARACTERS = 120  # of the 128 that a name may have, so that a suffix fits
LOCK_SECONDS = 30.0  # from choosing a name to the first heartbeat
_PROCESS = os.urandom(4).hex()  # instead of the pid, which is the same again after a container restarts
_claims = count(1)


@dataclass(frozen=True, slots=True)
class NameClaim:
    """A name reserved until the first heartbeat publishes it; `release` it then."""

    name: str
    owner: str
    locks: Locks

    def release(self) -> None:
        self.locks.release(_lock(self.name), owner=self.owner)


@dataclass(frozen=True, slots=True)
class _Holder:
    host: str
    pid: int
    process: str = ""

    @property
    def is_dead(self) -> bool:
        """Known of this machine's only."""
        if self.host != socket.gethostname():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return self.pid == os.getpid() and self.process != _PROCESS


def claim_name(name: str, heartbeats: Heartbeats, locks: Locks) -> NameClaim:
    """The name, or with a suffix if a worker that lives or that is just starting has it. One that was killed on this machine
    gives its name back at once, one on another machine when its heartbeat is forgotten."""
    owner = f"{socket.gethostname()} {os.getpid()} {_PROCESS} {next(_claims)}"
    first: _Holder | None = None
    for found in chain([name], (f"{name[:MOST_CHARACTERS]}-{number}" for number in count(2))):
        # The lock first: an earlier holder has sent its heartbeat by now, and a later worker does not get the lock.
        holder = _lock_holder(found, owner, locks) or _beating(found, heartbeats)
        if holder is None:
            break
        locks.release(_lock(found), owner=owner)
        first = first or holder
    if first is not None:
        log.warning(
            "worker.renamed name=%s: %s is taken by a worker on %s, process %d; give each worker a name of its own",
            found,
            name,
            first.host,
            first.pid,
        )
    return NameClaim(found, owner, locks)


def _lock(name: str) -> str:
    return f"worker.name.{name}"


def _lock_holder(name: str, owner: str, locks: Locks) -> _Holder | None:
    """Who is just starting under that name; None: we are."""
    while locks.acquire(_lock(name), owner=owner, ttl_seconds=LOCK_SECONDS) is None:
        holding = locks.owner(_lock(name))
        if holding is None:
            continue
        host, pid, process, *_ = *holding.split(" "), "", ""
        holder = _Holder(host, int(pid) if pid.isdecimal() else 0, process)
        if not holder.is_dead:
            return holder
        locks.release(_lock(name), owner=holding)
    return None


def _beating(name: str, heartbeats: Heartbeats) -> _Holder | None:
    found = (pulse.heartbeat for pulse in heartbeats.all() if pulse.heartbeat.worker_id == name)
    holders = [_Holder(heartbeat.host, heartbeat.pid) for heartbeat in found]
    return next((holder for holder in holders if not holder.is_dead), None)
