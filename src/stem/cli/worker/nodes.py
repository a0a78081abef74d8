"""Start, stop and look up nodes, and report the status of each."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Literal

import msgspec

from stem.core.errors import ConfigError
from stem.runtime import pidfile
from stem.runtime.daemon import LaunchPlan, ProcessHandle, last_lines, launch
from stem.runtime.pidfile import Reading, Running, Unreadable

KILLED_SECONDS = 10.0  # how long the kernel may take to end a killed process


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is known about one node, or what a command did to it."""

    node: str
    state: pidfile.State | Literal["started", "stopped", "killed", "not-running", "failed", "untouched"]
    message: str
    pid: int | None = None
    since: str | None = None
    uptime_seconds: float | None = None
    pidfile: str
    logfile: str | None = None
    log: list[str] = []  # its last lines, if it ended at once

    @property
    def has_failed(self) -> bool:
        return self.state == "failed"


def look_up(node: str, path: Path) -> NodeStatus:
    return _status(node, path, pidfile.read(path))


def start(plans: Mapping[str, LaunchPlan], wait_seconds: float) -> list[NodeStatus]:
    """Start all nodes, then watch them together for `wait_seconds`."""
    launched = {node: _launch(plan) for node, plan in plans.items()}
    end = time.monotonic() + wait_seconds
    return [_started(node, plans[node], what, end) for node, what in launched.items()]


def stop(files: Mapping[str, Path], timeout_seconds: float) -> list[NodeStatus]:
    """Signal all nodes before waiting for any, so that they stop at the same time."""
    with ExitStack() as stack:
        asked = {node: _terminate(path, stack) for node, path in files.items()}
        end = time.monotonic() + timeout_seconds
        return [_stopped(node, files[node], what, end) for node, what in asked.items()]


def restart(plans: Mapping[str, LaunchPlan], timeout_seconds: float, wait_seconds: float) -> list[NodeStatus]:
    """Restart nodes one after the other. If one does not come back, leave the rest running."""
    done: list[NodeStatus] = []
    for node, plan in plans.items():
        if done and (done[-1].has_failed or done[-1].state == "untouched"):
            reason = "Left as it is, because a node before it did not come back."
            done.append(NodeStatus(node=node, state="untouched", message=reason, pidfile=str(plan.pidfile)))
            continue
        (ending,) = stop({node: plan.pidfile}, timeout_seconds)
        done += [ending] if ending.has_failed else start({node: plan}, wait_seconds)
    return done


class _Launched(msgspec.Struct, frozen=True):
    result: "Popen[bytes] | Running | ConfigError"
    log_length: int  # before the start


def _launch(plan: LaunchPlan) -> _Launched:
    log_length = plan.logfile.stat().st_size if plan.logfile.is_file() else 0
    try:
        return _Launched(launch(plan), log_length)
    except ConfigError as error:
        return _Launched(error, log_length)


def _started(node: str, plan: LaunchPlan, launched: _Launched, end: float) -> NodeStatus:
    match launched.result:
        case ConfigError() as error:
            return NodeStatus(node=node, state="failed", message=str(error), pidfile=str(plan.pidfile))
        case Running() as found:
            return msgspec.structs.replace(_status(node, plan.pidfile, found), message="It was running already.")
        case process:
            return _survived(node, plan, process, end) or _ended_at_once(node, plan, process, launched.log_length)


def _survived(node: str, plan: LaunchPlan, process: "Popen[bytes]", end: float) -> NodeStatus | None:
    try:
        process.wait(max(0.0, end - time.monotonic()))
    except TimeoutExpired:
        process.returncode = 0  # it is left running, and nobody waits for it
        status = _status(node, plan.pidfile, pidfile.read(plan.pidfile))
        return msgspec.structs.replace(status, state="started", pid=process.pid, logfile=str(plan.logfile))
    return None


def _ended_at_once(node: str, plan: LaunchPlan, process: "Popen[bytes]", log_length: int) -> NodeStatus:
    pidfile.drop(plan.pidfile, process.pid)
    return NodeStatus(
        node=node,
        state="failed",
        message=f"It ended at once with {_ending(process.returncode)}; its log is {plan.logfile}.",
        pidfile=str(plan.pidfile),
        logfile=str(plan.logfile),
        log=last_lines(plan.logfile, after=log_length),
    )


def _ending(exit_code: int) -> str:
    return f"exit code {exit_code}" if exit_code >= 0 else f"signal {-exit_code}"


def _terminate(path: Path, stack: ExitStack) -> ProcessHandle | Reading | PermissionError:
    found = pidfile.read(path)
    if not isinstance(found, Running) or found.doubt:
        return found
    held = ProcessHandle.open(path, found)
    if held is None:
        return pidfile.Stale(found.pid, found.since)
    stack.enter_context(held)
    try:
        held.terminate()
    except PermissionError as error:
        return error
    return held


def _stopped(node: str, path: Path, asked: ProcessHandle | Reading | PermissionError, end: float) -> NodeStatus:
    match asked:
        case ProcessHandle() as held:
            return _ended(node, path, held, end)
        case PermissionError():
            return NodeStatus(node=node, state="failed", message="It belongs to another user.", pidfile=str(path))
        case Running() as doubted:
            message = f"Process {doubted.pid} was not stopped, because {path} cannot be trusted: {doubted.doubt}."
            return NodeStatus(node=node, state="failed", message=message, pid=doubted.pid, pidfile=str(path))
        case Unreadable() as reading:
            return msgspec.structs.replace(_status(node, path, reading), state="failed")
        case reading:
            return _not_running(node, path, reading)


def _ended(node: str, path: Path, held: ProcessHandle, end: float) -> NodeStatus:
    """Wait until `end`, then kill: a process that is frozen or ignores TERM ends as well."""
    has_ended = held.has_ended(end - time.monotonic())
    if not has_ended:
        held.kill()
        if not held.has_ended(KILLED_SECONDS):
            message = f"Process {held.found.pid} does not end even when killed; check what it waits for."
            return NodeStatus(node=node, state="failed", message=message, pid=held.found.pid, pidfile=str(path))
    pidfile.drop(path, held.found.pid)
    message = "It has ended." if has_ended else "It did not end in time and was killed; its tasks will run again."
    state: Literal["stopped", "killed"] = "stopped" if has_ended else "killed"
    return NodeStatus(node=node, state=state, message=message, pid=held.found.pid, pidfile=str(path))


def _not_running(node: str, path: Path, reading: Reading) -> NodeStatus:
    status = _status(node, path, reading)
    if status.pid is not None and path.parent.is_dir():
        pidfile.drop(path, status.pid)
    return msgspec.structs.replace(status, state="not-running")


def _status(node: str, path: Path, reading: Reading) -> NodeStatus:
    since = getattr(reading, "since", None)
    return NodeStatus(
        node=node,
        state=pidfile.state_of(reading),
        message=pidfile.sentence(path, reading),
        pid=getattr(reading, "pid", None),
        since=None if since is None else pidfile.written(since),
        uptime_seconds=getattr(reading, "uptime_seconds", None),
        pidfile=str(path),
    )
