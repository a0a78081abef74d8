"""`stem worker ping` and the like: ask live workers, and steer them; the same under `stem worker control`."""

from typing import Any, cast

import click

from stem.cli import show, times
from stem.cli.control_asking import Asking, asking
from stem.cli.control_telling import is_known_to_nobody, tell, tell_nobody

_queues = click.option("--queue", "queues", metavar="QUEUE", multiple=True, required=True, help="May be repeated.")


@click.command()
@asking
def ping(asked: Asking) -> None:
    """Ask workers whether they are there, and how they are.

    A worker is ok, paused, draining or wedged (it lives and fetches nothing); one that does not answer in time is timeout, or
    dead. Exit code 0 if all that are known have answered, 70 if one has not, 1 if none is known.

    \b
    Example: stem worker ping --worker worker-a --worker worker-b
    """
    with asked.line() as line:
        tell(asked, line, line.ask("ping"), "reply", rows=lambda told: [(f"pong, up {told['uptimeSeconds']:.0f} s",)])


@click.command()
@click.option("--queue", metavar="QUEUE", help="Only tasks of this queue.")
@click.option("--task", metavar="NAME", help="Only tasks of this name.")
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
        tell(asked, line, answers, "id", "task", "queue", "attempt", "run s", "", rows=_tasks)


@click.command()
@click.option("--tasks", "include_tasks", is_flag=True, help="With the tasks that run.")
@asking
def stats(asked: Asking, include_tasks: bool) -> None:
    """Say what workers do: how many tasks at a time, how many run and wait, what they have done.

    \b
    Example: stem worker stats --tasks --json
    """
    columns = ("running", "of", "at most", "reserved", "queues", "pid", "up s", "counters")
    with asked.line() as line:
        answers = line.ask("stats", {"includeTasks": include_tasks})
        tell(asked, line, answers, *columns, *(("tasks",) if include_tasks else ()), rows=_numbers)


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--task", "tasks", metavar="ID", multiple=True, help="The same as ID; may be repeated.")
@click.option("--terminate", is_flag=True, help="Stop those that run, too.")
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
    "--expires", "expires_seconds", type=times.DURATION, help="Forget it after so long: 7d.  [default: never]"
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
) -> None:
    """Do not run these tasks, now or ever: it is written down first, then workers are told.

    A task that waits is cancelled. One that runs goes on, or with --terminate is told to stop, and ended if it does not. It
    holds with no worker running, too.

    \b
    Example: stem worker revoke 0190a5d2 --terminate --reason "wrong customer"
             stem worker revoke --task 0190a5d2 --task 0190a5d3
    """
    from stem.control.revoking import revoke as revoke_tasks
    from stem.core.revoke import RevokeRequest

    wanted = list(dict.fromkeys((*ids, *tasks)))
    if not wanted:
        raise click.UsageError("Name at least one task", click.get_current_context())
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
    with asked.line() as line, line.marks() as marks:
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
            tell_nobody(
                asked, done.answers, f"Revoked {len(wanted)}; no worker is there, and none will run them.", more
            )
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
    """Stop workers. Returns when they have begun to.

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
@_queues
@asking
def pause(asked: Asking, queues: tuple[str, ...]) -> None:
    """Start nothing more of these queues, on all workers or on those named.

    What runs goes on; what was claimed goes back. It is written down: workers that start later heed it, too.

    \b
    Example: stem worker pause --worker worker-a --queue default
    """
    _change_pauses(asked, "pause", queues)


@click.command()
@_queues
@asking
def resume(asked: Asking, queues: tuple[str, ...]) -> None:
    """Go on with queues that were paused.

    \b
    Example: stem worker resume --worker worker-a --queue default
    """
    _change_pauses(asked, "resume", queues)


@click.command("queue-status")
@asking
def queue_status(asked: Asking) -> None:
    """List the queues that each worker serves, and which of them are paused.

    \b
    Example: stem worker queue-status
    """
    with asked.line() as line:
        columns = ("queue", "", "ready", "delayed", "running", "dead")
        tell(asked, line, line.ask("queue-status"), *columns, rows=_queue_rows)


@click.command()
@click.option("--enabled/--disabled", default=None, help="Whether they scale at all.")
@click.option("--min", "min", type=int, metavar="N", help="Never fewer isolates.")
@click.option("--max", "max", type=int, metavar="N", help="Never more.")
@click.option("--scale-up-step", "scaleUpStep", type=int, metavar="N", help="Most to add at a time.")
@click.option("--scale-down-step", "scaleDownStep", type=int, metavar="N", help="Most to take away at a time.")
@click.option("--idle", "idleSeconds", metavar="DURATION", help="How long idle before some leave: 30s.")
@click.option("--tick", "tick", metavar="DURATION", help="How often to decide: 2s.")
@click.option("--scale-up-cool-down", "scaleUpCoolDown", metavar="DURATION", help="Between two moves up: 5s.")
@click.option("--scale-down-cool-down", "scaleDownCoolDown", metavar="DURATION", help="Between two moves down: 10s.")
@click.option("--scale-up-trigger", "scaleUpTrigger", type=float, metavar="X", help="Of the backlog it takes: 1.0.")
@click.option("--backlog-per-isolate", "backlogPerIsolate", type=float, metavar="X", help="Meant for each: 2.0.")
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
        tell(asked, line, answers, "recycling", rows=lambda told: [(", ".join(map(str, told["recycling"])) or "none",)])


def _change_pauses(asked: Asking, verb: str, queues: tuple[str, ...]) -> None:
    from stem.control.pausing import Pausing

    with asked.line() as line, line.marks() as marks:
        pausing = Pausing(marks, line.store.locks, line.caller, _requester())
        change = pausing.pause if verb == "pause" else pausing.resume
        done = change(queues, workers=line.workers, timeout_seconds=line.timeout_seconds)
        more = {"scopes": done.scopes}
        if is_known_to_nobody(done.answers):
            sentence = "No worker is there to be told; it is written down, and counts for those that start later."
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
            each["runSeconds"],
            "revoked" if each["isRevoked"] else "",
        )
        for each in told["tasks"]
    ]
    return [*running, *((task_id, "", "", "", "", "revoked") for task_id in told.get("revoked", ()))]


def _numbers(told: dict[str, Any]) -> list[tuple[object, ...]]:
    counters = ",".join(f"{name}:{count}" for name, count in sorted(told["counters"].items()) if count)
    queues = ",".join(f"{queue} (paused)" if queue in told["pausedQueues"] else queue for queue in told["queues"])
    row = (
        told["inflight"],
        told["activeConcurrency"],
        told["maxConcurrency"],
        told["reserved"],
        queues,
        told["pid"],
        round(told["uptimeSeconds"]),
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
