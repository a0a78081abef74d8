"""The JSON that scripts read: one function per thing. Its names do not change."""

from typing import TYPE_CHECKING, Any

import msgspec

from stem.core.envelope import decode
from stem.core.errors import EnvelopeUnreadable
from stem.core.settings.app import masked

if TYPE_CHECKING:
    from stem.contracts.store import Store
    from stem.core.delivery import DeadLetter, Depth, Peeked
    from stem.core.heartbeat import Pulse
    from stem.core.record import TaskRecord


def queue(name: str, depth: "Depth") -> dict[str, Any]:
    return {
        "queue": name,
        "ready": depth.ready,
        "delayed": depth.delayed,
        "running": depth.running,
        "dead": depth.dead,
        "blocked": depth.blocked,
    }


def record(task: "TaskRecord") -> dict[str, Any]:
    """`state` repeats the stored `status` under the name that other commands use."""
    fields = msgspec.json.decode(msgspec.json.encode(task), type=dict[str, msgspec.Raw])
    return {**fields, "state": task.state}


def waiting(task: "Peeked") -> dict[str, Any]:
    return {
        "id": task.id,
        "name": task.name,
        "queue": task.queue,
        "priority": task.priority,
        "attempt": task.attempt,
        "dueAt": task.due_at,
        "args": arguments(task.body),
    }


def letter(dead: "DeadLetter", replay: str) -> dict[str, Any]:
    """`attempts` counts from 1; `replay` is the command that replays it."""
    return {
        "id": dead.id,
        "name": dead.name,
        "queue": dead.queue,
        "attempts": dead.attempt + 1,
        "reason": dead.reason,
        "error": dead.error,
        "meta": dead.meta,
        "deadAt": dead.dead_at,
        "worker": dead.worker,
        "args": arguments(dead.body),
        "replay": replay,
    }


def store(opened: "Store") -> dict[str, Any]:
    return {"url": masked(opened.url), **msgspec.to_builtins(opened.upkeep.diagnose())}


def worker(pulse: "Pulse") -> dict[str, Any]:
    return {**msgspec.to_builtins(pulse.heartbeat), "ageSeconds": round(pulse.age_seconds, 3)}


def arguments(body: bytes) -> msgspec.Raw | None:
    """Sensitive ones are masked. None where the envelope cannot be read."""
    try:
        args = decode(body).shown_args
        args.decode()  # the decoder skips over them, and they are to be printed
    except (EnvelopeUnreadable, UnicodeDecodeError):
        return None
    return msgspec.Raw(args)
