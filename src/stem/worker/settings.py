"""Check a worker's settings and fill in what was left open."""

import os
import re
import socket
from typing import Literal

import msgspec

from stem.core.errors import ConfigError
from stem.core.settings.worker import RENEW_AGAIN_SECONDS as RENEW_AGAIN_SECONDS
from stem.core.settings.worker import WorkerSettings as WorkerSettings
from stem.core.settings.worker import worker_problems
from stem.runtime.process import usable_cpus

# How to stop: let running tasks finish, ask them to stop, or kill them.
Mode = Literal["warm", "soft", "hard"]


def check(settings: WorkerSettings) -> WorkerSettings:
    """Return the settings with concurrency and name filled in. Raises ConfigError."""
    for problem in worker_problems(settings):
        raise ConfigError(problem)
    return msgspec.structs.replace(
        settings, concurrency=settings.concurrency or usable_cpus(), name=settings.name or _default_name()
    )


def _default_name() -> str:
    host = re.sub(r"[^A-Za-z0-9._\-]", "-", socket.gethostname()).strip("-._") or "worker"
    return f"{host[:80]}-{os.getpid()}-{os.urandom(2).hex()}"
