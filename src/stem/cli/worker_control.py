"""`stem worker ping` and the like: ask live workers, and steer them; the same under `stem worker control`."""

from typing import TYPE_CHECKING, Any, cast

import click

from stem.cli import show, times
from stem.cli.control_asking import Asking, Line, asking
from stem.cli.control_telling import is_known_to_nobody, tell, tell_nobody
from stem.core.errors import StemError, TaskNotFound, UsageError

if TYPE_CHECKING:
    from stem.control.caller import Answers


class QueueUnknown(StemError):
    """Nobody has used a queue of that name."""

    exit_code = 1


class IsolateUnknown(StemError):
    """No worker has an isolate of that process id."""

    exit_code = 1


_queues = (
    click.argument("named", metavar="[QUEUE]...", nargs=-1),
    click.option("-Q", "--queue", "queues", metavar="QUEUE", multiple=True, help="The same as QUEUE; may be repeated."),
    click.option("--unknown-ok", is_flag=True, help="Also a queue that nobody has used so far."),
)


def _with_queues(function: Any) -> Any:
    for option in reversed(_queues):
        function = option(function)
    return function


@click.command()
@asking
def ping(asked: Asking) -> None:
    """Check that workers answer, and show their state.

    A worker is ok, paused, draining or wedged (it lives and fetches nothing); one that does not answer in time is timeout, or
    dead. Exit code 0 if all that are known have answered, 70 if one has not, 1 if none is known.

    \b
    Example: stem worker ping --worker worker-a --worker worker-b
    """
    with asked.line() as line:
        tell(asked, line, line.ask("ping"), "reply", rows=lambda told: [(f"pong, up {told['uptimeSeconds']:.0f} s",)])


@click.command()
@click.option("-Q", "--queue", metavar="QUEUE", help="Only tasks of this queue.")
@click.option("--name", "--task", "task", metavar="NAME", help="Only tasks of this name.")
@click.option("--id", "task_id", metavar="ID", help="Only this task.")
@click.option("--revoked", is_flag=True, help="Also the tasks that it knows to be revoked.")
@asking
def inspect(asked: Asking, queue: str | None, task: str | None, task_id: str | None, revoked: bool) -> None:
    """List the tasks that run, longest first. Also called list-active, or active.

    \b
    Example: stem worker inspect --json
    """
    filters = {"queue": queue, "task": task, "id": task_id}
    with asked.line() as line:
        given = {name: value for name, value in filters.items() if value}
        answers = line.ask("list-active", {"filters": given, "includeRevoked": revoked})
        columns = ("id", "task", "queue", "attempt", "running for", "")
        tell(asked, line, answers, *columns, rows=_tasks, shrink=("worker", "task", "queue"))


@click.command()
@click.option("--tasks", "include_tasks", is_flag=True, help="With the tasks that run.")
@asking
def stats(asked: Asking, include_tasks: bool) -> None:
    """Show concurrency, running and reserved tasks, queue depth and counters per worker.

    \b
    Example: stem worker stats --tasks --json
    """
    columns = ("running", "max", "reserved", "depth", "queues", "pid", "up", "counters")
    with asked.line() as line:
        answers = line.ask("stats", {"includeTasks": include_tasks})
        more = ("tasks",) if include_tasks else ()
        tell(asked, line, answers, *columns, *more, rows=_numbers, shrink=("worker", "queues", "counters"))


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--task", "tasks", metavar="ID", multiple=True, help="The same as ID; may be repeated.")
@click.option("--terminate", is_flag=True, help="Also stop those that run.")
@click.option(
    "--signal",
    type=click.Choice(
        ("SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL"), case_sensitive=False
    ),
    default="SIGTERM",
    show_default=True,
    help="With --terminate, for a task that does not stop when asked.",
)
@click.option("--reason", default="", help="Why; the task's record keeps it.")
@click.option(
    "--expires", "expires_seconds", type=times.DURATION, help="Forget it after this long: 7d.  [default: never]"
)
@click.option(
    "--unknown-ok", is_flag=True, help="Also an id that is not in the store, to revoke it before it is enqueued."
)
@asking
def revoke(
    asked: Asking,
    ids: tuple[str, ...],
    tasks: tuple[str, ...],
    terminate: bool,
    signal: str,
    reason: str,
    expires_seconds: float | None,
    unknown_ok: bool,
) -> None:
    """Never run these tasks: the revocation is stored first, then workers are told.

    A task that waits is cancelled. One that runs goes on, or with --terminate is told to stop, and ended if it does not. The
    revocation holds for all workers, also for those that start later. Exit code 1 if the store does not know an id; nothing is
    revoked then.

    \b
    Example: stem task revoke 0190a5d2 --terminate --reason "wrong customer"
             stem worker revoke --task 0190a5d2 --task 0190a5d3
    """
    from stem.control.revoking import check_revocable
    from stem.control.revoking import revoke as revoke_tasks
    from stem.core.revoke import RevokeRequest

    wanted = list(dict.fromkeys((*ids, *tasks)))
    if not wanted:
        raise click.UsageError("Name at least one task", click.get_current_context())
    if asked.workers:
        raise UsageError("A revoke holds for all workers, whoever runs the task; leave out --worker.")
    check_revocable(wanted)
    signal = signal.upper()
    requests = [
        RevokeRequest(
            task_id=task_id,
            reason=reason,
            requester=_requester(),
            terminate=terminate,
            signal=signal if terminate else None,
            expires_seconds=expires_seconds,
        )
        for task_id in wanted
    ]
    with asked.line(may_create=unknown_ok) as line, line.marks() as marks:
        if not unknown_ok:
            _check_known(line, wanted)
        done = revoke_tasks(
            marks,
            line.caller,
            requests,
            terminate=terminate,
            signal=signal,
            workers=line.workers,
            timeout_seconds=line.timeout_seconds,
            broker=line.store.broker,
        )
        more = {"revoked": done.records, "cancelled": done.cancelled}
        if done.cancelled and not asked.session.as_json:
            click.echo(show.plain(f"Cancelled before they started: {', '.join(done.cancelled)}"))
        if done.answers is None or is_known_to_nobody(done.answers):
            where = "No workers are running; the revocation is stored and applies to workers that start later."
            sentence = f"Revoked {len(wanted)}. {where}"
            tell_nobody(asked, done.answers, sentence, more)
        else:
            tell(asked, line, done.answers, "id", "outcome", rows=lambda told: list(told["tasks"].items()), more=more)


@click.command()
@click.option(
    "--mode",
    type=click.Choice(("warm", "soft", "hard", "cold", "force"), case_sensitive=False),
    default="warm",
    show_default=True,
    help="cold is soft, force is hard.",
)
@asking
def shutdown(asked: Asking, mode: str) -> None:
    """Stop workers. Returns when they have begun to stop.

    \b
    warm  lets tasks end
    soft  tells tasks to stop, and gives them a grace
    hard  puts tasks back into their queues at once

    \b
    Example: stem worker shutdown --mode warm --worker worker-a
    """
    with asked.line() as line:
        answers = line.ask("shutdown", {"mode": mode.lower()})
        tell(asked, line, answers, "reply", rows=lambda told: [(f"{told['mode']} shutdown begun",)])


@click.command()
@_with_queues
@asking
def pause(asked: Asking, named: tuple[str, ...], queues: tuple[str, ...], unknown_ok: bool) -> None:
    """Start no more tasks of these queues, on all workers or on those named.

    What runs goes on; what was claimed goes back. The pause is stored: workers that start later heed it as well. Exit code 1
    if nobody knows a queue of that name; nothing is paused then.

    \b
    Example: stem queue pause default
             stem worker pause --worker worker-a --queue default
    """
    _change_pauses(asked, "pause", named + queues, unknown_ok=unknown_ok)


@click.command()
@_with_queues
@asking
def resume(asked: Asking, named: tuple[str, ...], queues: tuple[str, ...], unknown_ok: bool) -> None:
    """Go on with queues that were paused.

    \b
    Example: stem queue resume default
             stem worker resume --worker worker-a --queue default
    """
    _change_pauses(asked, "resume", named + queues, unknown_ok=unknown_ok)


@click.command("queue-status")
@asking
def queue_status(asked: Asking) -> None:
    """List the queues that each worker serves, and which of them are paused.

    \b
    Example: stem worker queue-status
    """
    with asked.line() as line:
        columns = ("queue", "", "ready", "delayed", "running", "dead")
        tell(asked, line, line.ask("queue-status"), *columns, rows=_queue_rows, shrink=("worker", "queue"))


@click.command()
@click.option("--enabled/--disabled", default=None, help="Whether they scale at all.")
@click.option("--min", "min", type=int, metavar="N", help="Never fewer isolates.")
@click.option("--max", "max", type=int, metavar="N", help="Never more.")
@click.option("--scale-up-step", "scaleUpStep", type=int, metavar="N", help="Add at most N at a time.")
@click.option("--scale-down-step", "scaleDownStep", type=int, metavar="N", help="Remove at most N at a time.")
@click.option("--idle", "idleSeconds", metavar="DURATION", help="How long idle before isolates are removed: 30s.")
@click.option("--tick", "tick", metavar="DURATION", help="How often to decide: 2s.")
@click.option("--scale-up-cool-down", "scaleUpCoolDown", metavar="DURATION", help="Between two moves up: 5s.")
@click.option("--scale-down-cool-down", "scaleDownCoolDown", metavar="DURATION", help="Between two moves down: 10s.")
@click.option(
    "--scale-up-trigger",
    "scaleUpTrigger",
    type=float,
    metavar="X",
    help="Share of the intended backlog that triggers growth: 1.0.",
)
@click.option(
    "--backlog-per-isolate",
    "backlogPerIsolate",
    type=float,
    metavar="X",
    help="Waiting tasks intended per isolate: 2.0.",
)
@asking
def autoscale(asked: Asking, **given: Any) -> None:
    """Show how workers scale, or change it until they are restarted.

    \b
    Example: stem worker autoscale --enabled --min 2 --max 10
    """
    changes = {name: value for name, value in given.items() if value is not None}
    with asked.line() as line:
        tell(
            asked,
            line,
            line.ask("autoscale-config", changes),
            "reply",
            rows=lambda told: [(_block(told["autoscale"]),)],
        )


@click.command("rate-limit")
@click.argument("task")
@click.argument("rate")
@asking
def rate_limit(asked: Asking, task: str, rate: str) -> None:
    """Let TASK start no more often than RATE, until workers are restarted; `none` lifts its limit.

    \b
    Example: stem worker rate-limit mail.send 100/m
    """
    with asked.line() as line:
        answers = line.ask("rate-limit", {"task": task, "rate": None if rate.lower() == "none" else rate})
        tell(asked, line, answers, "task", "rate", rows=lambda told: [(told["task"], told["rateLimit"] or "none")])


@click.command()
@click.option("--isolate", "pids", type=click.IntRange(1), metavar="PID", multiple=True, help="Only this one.")
@asking
def recycle(asked: Asking, pids: tuple[int, ...]) -> None:
    """Replace isolates by fresh ones, each after the task that it runs.

    \b
    Example: stem worker recycle --worker worker-a --isolate 4711
    """
    with asked.line() as line:
        answers = line.ask("recycle", {"isolates": list(pids)} if pids else {})
        _check_isolates(pids, answers)
        tell(asked, line, answers, "recycling", rows=lambda told: [(", ".join(map(str, told["recycling"])) or "none",)])


def _check_known(line: Line, ids: list[str]) -> None:
    """Before anything is written: a slip in an id would otherwise look like a task that was stopped."""
    found = line.store.results.get(ids)
    unknown = [task_id for task_id in ids if task_id not in found]
    if unknown:
        there = f"in namespace {line.store.namespace!r} on {line.store.url}"
        remedy = "add --unknown-ok to revoke an id before it is enqueued"
        raise TaskNotFound(f"There is no task {', '.join(unknown[:5])} {there}, so nothing was revoked; {remedy}.")


def _check_isolates(pids: tuple[int, ...], answers: "Answers") -> None:
    """A process id that no worker has; each worker only knows its own."""
    replies = [reply for reply in answers.replies.values() if reply.status == "ok"]
    told = [reply.payload.get("recycling") for reply in replies]
    missing = [str(pid) for pid in pids if not any(isinstance(each, list) and pid in each for each in told)]
    if missing and replies:
        raise IsolateUnknown(
            f"No worker that was asked has the isolate {', '.join(missing)}; see: stem worker stats --json"
        )


def _change_pauses(asked: Asking, verb: str, queues: tuple[str, ...], *, unknown_ok: bool) -> None:
    from stem.cli.queue_states import queue_states, unknown_queues
    from stem.control.pausing import Pausing
    from stem.core.envelope import check_queue

    if not queues:
        raise click.UsageError("Name at least one queue, as QUEUE or --queue QUEUE", click.get_current_context())
    queues = tuple(map(check_queue, queues))
    with asked.line(may_create=unknown_ok) as line, line.marks() as marks:
        unknown = [] if unknown_ok else unknown_queues(queues, queue_states(line.store, marks))
        if unknown:
            remedy = "add --unknown-ok if one will come"
            raise QueueUnknown(
                f"No task has waited in the queue {', '.join(unknown)} and no worker serves it, so nothing was changed; {remedy}."
            )
        pausing = Pausing(marks, line.store.locks, line.caller, _requester())
        change = pausing.pause if verb == "pause" else pausing.resume
        done = change(queues, workers=line.workers, timeout_seconds=line.timeout_seconds)
        more = {"scopes": done.scopes}
        if is_known_to_nobody(done.answers):
            sentence = f"No workers are running; the {verb} is stored and applies to workers that start later."
            tell_nobody(asked, done.answers, sentence, more)
        else:
            tell(asked, line, done.answers, "paused", rows=_paused_row, more=more)


def _requester() -> str:
    import getpass
    import socket
    from contextlib import suppress

    user = "?"
    with suppress(KeyError, OSError):  # a user id without a name, as in some containers
        user = getpass.getuser()
    return f"{user}@{socket.gethostname()}"


def _tasks(told: dict[str, Any]) -> list[tuple[object, ...]]:
    running = [
        (
            each["id"],
            each["task"],
            each["queue"],
            each["attempt"],
            times.span(each["runSeconds"]),
            "revoked" if each["isRevoked"] else "",
        )
        for each in told["tasks"]
    ]
    return [*running, *((task_id, "", "", "", "", "revoked") for task_id in told.get("revoked", ()))]


def _numbers(told: dict[str, Any]) -> list[tuple[object, ...]]:
    counters = ",".join(f"{name}:{count}" for name, count in sorted(told["counters"].items()) if count)
    queues = ",".join(f"{queue} (paused)" if queue in told["pausedQueues"] else queue for queue in told["queues"])
    row = (
        f"{told['inflight']}/{told['activeConcurrency']}",
        told["maxConcurrency"],
        told["reserved"],
        told.get("queueDepth"),
        queues,
        told["pid"],
        times.span(told["uptimeSeconds"]),
        counters,
    )
    if "active" not in told:
        return [row]
    return [(*row, ", ".join(f"{each['task']} {each['id']}" for each in told["active"]))]


def _queue_rows(told: dict[str, Any]) -> list[tuple[object, ...]]:
    return [
        (queue, "paused" if each["paused"] else "", each["ready"], each["delayed"], each["running"], each["dead"])
        for queue, each in sorted(told["queues"].items())
    ]


def _paused_row(told: dict[str, Any]) -> list[tuple[object, ...]]:
    return [(", ".join(cast("list[str]", told["paused"])) or "none",)]


def _block(autoscale: dict[str, Any]) -> str:
    switch = "on" if autoscale["enabled"] else "off"
    rest = " ".join(f"{name}={value:g}" for name, value in autoscale.items() if name != "enabled")
    return f"{switch}, {rest}"
