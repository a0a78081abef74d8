"""A name of its own for every worker: commands, heartbeats and records tell workers apart by it."""

import logging
import os
import socket
from itertools import count

from stem.contracts.heartbeats import Heartbeats
from stem.core.heartbeat import Heartbeat

log = logging.getLogger("stem.worker")

MOST_CHARACTERS = 120  # of the 128 that a name may have, so that a suffix fits


def free_name(name: str, heartbeats: Heartbeats) -> str:
    """The name, or with a suffix if a living worker has it. One that was killed on this machine gives its name back at once,
    one on another machine when its heartbeat is forgotten."""
    others = {pulse.heartbeat.worker_id: pulse.heartbeat for pulse in heartbeats.all()}
    holder = others.get(name)
    if holder is None or _is_dead(holder):
        return name
    base = name[:MOST_CHARACTERS]
    free = next(found for number in count(2) if (found := f"{base}-{number}") not in others or _is_dead(others[found]))
    log.warning(
        "worker.renamed name=%s: %s is taken by a worker on %s, process %d; give each worker a name of its own",
        free,
        name,
        holder.host,
        holder.pid,
    )
    return free


def _is_dead(worker: Heartbeat) -> bool:
    """Known of this machine's only. In a container that was started again we have the number that it had."""
    if worker.host != socket.gethostname():
        return False
    try:
        os.kill(worker.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return worker.pid == os.getpid()
