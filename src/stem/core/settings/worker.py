"""The settings of one worker. They are checked once, then passed down."""

import re
from typing import Annotated

import msgspec

from stem.core.decisions.autoscale import Autoscale, bounds_problems
from stem.core.decisions.settle import MAX_DEATHS
from stem.core.settings.control import ADDRESS
from stem.core.settings.kinds import NAMES, SWITCH, TEXT, choice, seconds, size_up_to, whole
from stem.core.settings.setting import Setting, problems

RENEW_AGAIN_SECONDS = 1.0  # after an outage: leases may have run out, and other workers wait only a grace period

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:\-]{0,127}", re.ASCII)
_SLOW_WRITE = "one slow write to the store would give a running task to another worker"
_YEAR = seconds(365 * 86400.0)
_DAY = seconds(86400.0)
# A lease is renewed four times in its length.
_LEASE = seconds(86400.0, least=0.5, because=_SLOW_WRITE)


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one worker works. Empty `queues` stand for all that the app's tasks name; `prefetch` bounds what may be claimed
    and not yet started, and how much of it is used depends on how fast tasks end."""

    name: Annotated[
        str, Setting("worker.name", TEXT, "Name the worker.", flags="-n --name", auto="host, pid and a random suffix")
    ] = ""
    queues: Annotated[
        tuple[str, ...], Setting("worker.queues", NAMES, "Serve only this queue.", also="queue", flags="-Q --queue")
    ] = ()
    concurrency: Annotated[
        int,
        Setting(
            "worker.concurrency",
            whole(1, 1000),
            "Run N tasks at a time.",
            flags="-c --concurrency",
            auto="one per core",
        ),
    ] = 0
    prefetch: Annotated[
        int, Setting("worker.prefetch", whole(0, 100_000), "Claim at most N tasks ahead.", flags="--prefetch")
    ] = 1000
    soft_limit: Annotated[
        float | None,
        Setting(
            "worker.softLimit",
            _YEAR,
            "Raise SoftTimeLimitExceeded after this.",
            also="softTimeLimit",
            flags="--soft-limit",
        ),
    ] = None
    hard_limit: Annotated[
        float | None,
        Setting("worker.hardLimit", _YEAR, "Kill a task after this long.", also="hardTimeLimit", flags="--hard-limit"),
    ] = None
    lease_seconds: Annotated[
        float, Setting("worker.lease", _LEASE, "Let other workers take over this long after a crash.", flags="--lease")
    ] = 10.0
    heartbeat_seconds: Annotated[
        float, Setting("worker.heartbeat", _DAY, "Send a heartbeat this often.", also="heartbeatInterval")
    ] = 10.0
    max_tasks_per_isolate: Annotated[
        int | None,
        Setting(
            "worker.maxTasksPerIsolate",
            whole(1, 10**9),
            "Replace an isolate after N tasks.",
            also="maxTasksPerChild maxTasksPerProcess",
            flags="--max-tasks-per-isolate",
        ),
    ] = None
    max_memory_per_isolate: Annotated[  # bytes, of the isolate and its children
        int | None,
        Setting(
            "worker.maxMemoryPerIsolate",
            size_up_to(2**50),
            "Replace an isolate of this size.",
            also="maxMemoryPerChild",
            flags="--max-memory-per-isolate",
        ),
    ] = None
    warm_seconds: Annotated[
        float | None,
        Setting(
            "worker.warmTimeout", _YEAR, "Let tasks finish this long after TERM.", also="warm", flags="--warm-timeout"
        ),
    ] = None
    grace_seconds: Annotated[
        float,
        Setting(
            "worker.grace", _YEAR, "Kill a task this long after asking it to stop.", also="gracePeriod", flags="--grace"
        ),
    ] = 5.0
    lane_concurrency: Annotated[
        int,
        Setting(
            "worker.inlineConcurrency", whole(1, 1000), "Run N inline tasks at a time.", flags="--inline-concurrency"
        ),
    ] = 8
    async_concurrency: Annotated[
        int,
        Setting(
            "worker.asyncConcurrency", whole(1, 100_000), "Run N coroutines per isolate.", flags="--async-concurrency"
        ),
    ] = 10
    limiter_fails_open: Annotated[
        bool, Setting("worker.limiterFailsOpen", SWITCH, "Start tasks although their rate cannot be read.")
    ] = False
    max_deaths: Annotated[
        int,
        Setting(
            "worker.maxDeaths", whole(1, 1000), "Give a task up after N crashes.", also="crashLoopCap crashLoopLimit"
        ),
    ] = MAX_DEATHS
    reclaim_seconds: Annotated[float, Setting("", _DAY, "Look for expired leases this often.")] = 2.5
    stall_seconds: Annotated[float, Setting("", _DAY, "Give up after this long without fetching.")] = 30.0
    log_tasks: Annotated[
        bool,
        Setting(
            "worker.logTasks",
            SWITCH,
            "Log each task that succeeds.",
            "STEM_LOG_TASKS",
            flags="--log-tasks/--no-log-tasks",
        ),
    ] = True
    task_logs: Annotated[
        bool,
        Setting(
            "worker.taskLogs",
            SWITCH,
            "Keep what tasks print in the store, for 'stem task logs'.",
            "STEM_TASK_LOGS",
        ),
    ] = True
    minute_counts: Annotated[
        bool,
        Setting(
            "worker.minuteCounts",
            SWITCH,
            "Count endings per minute into the store, for the charts of the dashboard.",
            "STEM_MINUTE_COUNTS",
        ),
    ] = True
    health: Annotated[
        str | None,
        Setting(
            "worker.health",
            ADDRESS,
            "Serve probes and metrics on this host and port.",
            "STEM_HEALTH",
            flags="--health",
        ),
    ] = None
    autoscale: Autoscale = Autoscale()

    def reclaim_grace_seconds(self, timeout_seconds: float) -> float:
        """How long workers may take to renew their leases after an outage: two rounds of renewing, and of reclaiming.

        A call may hang until the store's timeout though the store is back, as behind a proxy: then the next one counts. But
        an outage shorter than the grace is not noticed, and a lease has three quarters of its time left when one begins.
        """
        next_call_seconds = timeout_seconds + RENEW_AGAIN_SECONDS + 1.0
        return max(self.lease_seconds / 2, self.reclaim_seconds * 2, min(next_call_seconds, self.lease_seconds * 0.75))


class WorkerProcess(msgspec.Struct, frozen=True, kw_only=True):
    """What `stem worker start` needs besides: an app, a log and signals."""

    app: Annotated[
        str | None,
        Setting("worker.app", TEXT, "The app: shop.tasks:app, or shop.py:app.", "STEM_APP", flags="-A --app"),
    ] = None
    beat: Annotated[
        bool, Setting("worker.beat", SWITCH, "Run a scheduler beside the worker.", flags="--beat/--no-beat")
    ] = False
    install_signal_handlers: Annotated[
        bool, Setting("worker.installSignalHandlers", SWITCH, "Stop on TERM, INT, QUIT and HUP.")
    ] = True
    log_level: Annotated[
        str,
        Setting(
            "worker.logLevel",
            choice("debug", "info", "warning", "error"),
            "Log from this level on.",
            "STEM_LOG_LEVEL",
            flags="-l --log-level",
        ),
    ] = "info"
    log_format: Annotated[
        str,
        Setting(
            "worker.logFormat",
            choice("text", "json"),
            "Write lines of text or of JSON.",
            "STEM_LOG_FORMAT",
            flags="--log-format",
        ),
    ] = "text"


def worker_problems(settings: WorkerSettings) -> list[str]:
    """Return what is wrong with the settings, one by one and taken together."""
    found = list(problems(settings))
    if found:
        return found
    soft, hard, name = settings.soft_limit, settings.hard_limit, settings.name
    if soft and hard and soft >= hard:
        found.append(f"The soft limit of {soft:g} s is not below the hard limit of {hard:g} s; lower it.")
    if name and not _NAME.fullmatch(name):
        found.append(f"Worker name {name!r} is not 1 to 128 of letters, digits, '.', '_', '@', ':' and '-'.")
    return [*found, *bounds_problems(settings.autoscale)]
