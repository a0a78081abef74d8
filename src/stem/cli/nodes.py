"""Start, stop and look up nodes, and say what became of each."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Literal

import msgspec

from stem.core.errors import ConfigError
from stem.runtime import pidfile
from stem.runtime.daemon import Held, Plan, last_lines, launch
from stem.runtime.pidfile import Reading, Running, Unreadable

KILLED_SECONDS = 10.0  # what the kernel may take to end a process that was killed


class Told(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    node: str
    state: pidfile.State | Literal["started", "stopped", "killed", "not-running", "failed", "untouched"]
    message: str
    pid: int | None = None
    since: str | None = None
    uptime_seconds: float | None = None
    pidfile: str
    logfile: str | None = None
    log: list[str] = []  # its last lines, where it fell

    @property
    def has_failed(self) -> bool:
        return self.state == "failed"


def look_up(node: str, path: Path) -> Told:
    return _of(node, path, pidfile.read(path))


def start(plans: Mapping[str, Plan], wait_seconds: float) -> list[Told]:
    """All of them, then watched together for so long."""
    begun = {node: _launch(plan) for node, plan in plans.items()}
    end = time.monotonic() + wait_seconds
    return [_started(node, plans[node], what, end) for node, what in begun.items()]


def stop(files: Mapping[str, Path], timeout_seconds: float) -> list[Told]:
    """All are told before any is waited for, so that they end side by side."""
    with ExitStack() as stack:
        asked = {node: _ask_to_end(path, stack) for node, path in files.items()}
        end = time.monotonic() + timeout_seconds
        return [_stopped(node, files[node], what, end) for node, what in asked.items()]


def restart(plans: Mapping[str, Plan], timeout_seconds: float, wait_seconds: float) -> list[Told]:
    """One after the other. After one that does not come back the others are left as they are, so that some go on."""
    told: list[Told] = []
    for node, plan in plans.items():
        if told and (told[-1].has_failed or told[-1].state == "untouched"):
            reason = "Left as it is, because a node before it did not come back."
            told.append(Told(node=node, state="untouched", message=reason, pidfile=str(plan.pidfile)))
            continue
        (ending,) = stop({node: plan.pidfile}, timeout_seconds)
        told += [ending] if ending.has_failed else start({node: plan}, wait_seconds)
    return told


class _Begun(msgspec.Struct, frozen=True):
    what: "Popen[bytes] | Running | ConfigError"
    log_length: int  # before


def _launch(plan: Plan) -> _Begun:
    log_length = plan.logfile.stat().st_size if plan.logfile.is_file() else 0
    try:
        return _Begun(launch(plan), log_length)
    except ConfigError as error:
        return _Begun(error, log_length)


def _started(node: str, plan: Plan, begun: _Begun, end: float) -> Told:
    match begun.what:
        case ConfigError() as error:
            return Told(node=node, state="failed", message=str(error), pidfile=str(plan.pidfile))
        case Running() as found:
            return msgspec.structs.replace(_of(node, plan.pidfile, found), message="It was running already.")
        case process:
            return _survived(node, plan, process, end) or _fallen(node, plan, process, begun.log_length)


def _survived(node: str, plan: Plan, process: "Popen[bytes]", end: float) -> Told | None:
    try:
        process.wait(max(0.0, end - time.monotonic()))
    except TimeoutExpired:
        process.returncode = 0  # it is left to run, and nobody's to wait for
        told = _of(node, plan.pidfile, pidfile.read(plan.pidfile))
        return msgspec.structs.replace(told, state="started", pid=process.pid, logfile=str(plan.logfile))
    return None


def _fallen(node: str, plan: Plan, process: "Popen[bytes]", log_length: int) -> Told:
    pidfile.drop(plan.pidfile, process.pid)
    return Told(
        node=node,
        state="failed",
        message=f"It ended at once with {_ending(process.returncode)}; its log is {plan.logfile}.",
        pidfile=str(plan.pidfile),
        logfile=str(plan.logfile),
        log=last_lines(plan.logfile, after=log_length),
    )


def _ending(exit_code: int) -> str:
    return f"exit code {exit_code}" if exit_code >= 0 else f"signal {-exit_code}"


def _ask_to_end(path: Path, stack: ExitStack) -> Held | Reading | PermissionError:
    found = pidfile.read(path)
    if not isinstance(found, Running):
        return found
    if found.doubt:
        return found
    held = Held.take(path, found)
    if held is None:
        return pidfile.Stale(found.pid, found.since)
    stack.enter_context(held)
    try:
        held.terminate()
    except PermissionError as error:
        return error
    return held


def _stopped(node: str, path: Path, asked: Held | Reading | PermissionError, end: float) -> Told:
    match asked:
        case Held() as held:
            return _ended(node, path, held, end)
        case PermissionError():
            return Told(node=node, state="failed", message="It belongs to another user.", pidfile=str(path))
        case Running() as doubted:
            message = f"Process {doubted.pid} was not stopped, because {path} cannot be trusted: {doubted.doubt}."
            return Told(node=node, state="failed", message=message, pid=doubted.pid, pidfile=str(path))
        case Unreadable() as reading:
            return msgspec.structs.replace(_of(node, path, reading), state="failed")
        case reading:
            return _was_gone(node, path, reading)


def _ended(node: str, path: Path, held: Held, end: float) -> Told:
    """Waited for until `end`, then killed: one that is frozen or does not heed TERM ends too."""
    has_obeyed = held.has_ended(end - time.monotonic())
    if not has_obeyed:
        held.kill()
        if not held.has_ended(KILLED_SECONDS):
            message = f"Process {held.found.pid} does not end even when killed; see what it waits for."
            return Told(node=node, state="failed", message=message, pid=held.found.pid, pidfile=str(path))
    pidfile.drop(path, held.found.pid)
    message = "It has ended." if has_obeyed else "It did not end in time and was killed; its tasks will run again."
    state: Literal["stopped", "killed"] = "stopped" if has_obeyed else "killed"
    return Told(node=node, state=state, message=message, pid=held.found.pid, pidfile=str(path))


def _was_gone(node: str, path: Path, reading: Reading) -> Told:
    told = _of(node, path, reading)
    if told.pid is not None and path.parent.is_dir():
        pidfile.drop(path, told.pid)
    return msgspec.structs.replace(told, state="not-running")


def _of(node: str, path: Path, reading: Reading) -> Told:
    since = getattr(reading, "since", None)
    return Told(
        node=node,
        state=pidfile.state_of(reading),
        message=pidfile.sentence(path, reading),
        pid=getattr(reading, "pid", None),
        since=None if since is None else pidfile.written(since),
        uptime_seconds=getattr(reading, "uptime_seconds", None),
        pidfile=str(path),
    )
