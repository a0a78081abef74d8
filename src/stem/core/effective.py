"""Merge flags, environment, file and defaults into the configuration that holds, and say where each value came from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stem.core import autoscale, config
from stem.core.autoscale import Autoscale, autoscale_of
from stem.core.config import Settings, control_faults, settings_of
from stem.core.errors import ConfigError
from stem.core.option import (
    NAMES,
    SWITCH,
    TEXT,
    Option,
    Reading,
    choice,
    defaults,
    near,
    read_block,
    read_environment,
    seconds,
    size_up_to,
    whole,
)
from stem.core.settle import MAX_DEATHS

# A lease is renewed four times in its length; below this, one slow write gives a running task to another worker.
LEAST_LEASE_SECONDS = 0.5
_YEAR_SECONDS = 365 * 86400.0
_PER_ISOLATE = ("maxTasksPerChild", "maxTasksPerProcess")
_MEMORY_PER_ISOLATE = ("maxMemoryPerIsolateBytes", "maxMemoryPerChild", "maxMemoryPerChildBytes")

WORKER_OPTIONS = (
    Option("worker.app", TEXT, None, "STEM_APP"),
    Option("worker.name", TEXT),
    Option("worker.queues", NAMES, (), spellings=("queue",)),
    Option("worker.concurrency", whole(1, 1000)),
    Option("worker.prefetch", whole(0, 100_000), 1000),
    Option("worker.asyncConcurrency", whole(1, 100_000), 10),
    Option("worker.softLimit", seconds(_YEAR_SECONDS), spellings=("softTimeLimit", "softLimitSeconds")),
    Option("worker.hardLimit", seconds(_YEAR_SECONDS), spellings=("hardTimeLimit", "hardLimitSeconds")),
    Option("worker.lease", seconds(86400.0, least=LEAST_LEASE_SECONDS), 10.0, spellings=("leaseSeconds",)),
    Option("worker.heartbeat", seconds(86400.0), 10.0, spellings=("heartbeatSeconds", "heartbeatInterval")),
    Option("worker.maxTasksPerIsolate", whole(1, 10**9), spellings=_PER_ISOLATE),
    Option("worker.maxMemoryPerIsolate", size_up_to(2**50), spellings=_MEMORY_PER_ISOLATE),
    Option("worker.grace", seconds(_YEAR_SECONDS), 5.0, spellings=("graceSeconds", "gracePeriod")),
    Option("worker.warmTimeout", seconds(_YEAR_SECONDS), spellings=("warmSeconds", "warmTimeoutSeconds")),
    Option("worker.limiterFailsOpen", SWITCH, False),
    Option("worker.maxDeaths", whole(1, 1000), MAX_DEATHS, spellings=("crashLoopCap", "crashLoopLimit")),
    Option("worker.installSignalHandlers", SWITCH, True),
    Option("worker.logLevel", choice("debug", "info", "warning", "error"), "info", "STEM_LOG_LEVEL"),
    Option("worker.logFormat", choice("text", "json"), "text", "STEM_LOG_FORMAT"),
    Option("worker.logTasks", SWITCH, True, "STEM_LOG_TASKS"),
)
OPTIONS = (*config.OPTIONS, *WORKER_OPTIONS, *autoscale.OPTIONS)

# What Stem reads from the environment that is no setting of a store, a client or a worker.
OTHER_VARIABLES = (
    "STEM_CACHE_DIR",
    "STEM_CONFIG",
    "STEM_DEBUG",
    "STEM_SPARK_ARCHIVE",
    "STEM_SPARK_PY_FILES",
    "STEM_SPARK_LOG",
    "STEM_SPARK_OWNER",
    "STEM_WORKER_COMMAND",
    "STEM_WORKER_LOGFILE",
    "STEM_WORKER_NODE",
    "STEM_WORKER_PIDFILE",
)

# A block that is a bare text says the one thing that is needed of it.
_SHORT = {"broker": "url", "results": "url", "revokes": "url", "signing": "keys"}
_BLOCKS = tuple(dict.fromkeys(option.block for option in OPTIONS))


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a worker. None: not said, so the worker's own default counts."""

    app: str | None = None
    name: str | None = None
    queues: tuple[str, ...] = ()
    concurrency: int | None = None
    prefetch: int = 1000
    async_concurrency: int = 10
    soft_limit: float | None = None
    hard_limit: float | None = None
    lease_seconds: float = 10.0
    heartbeat_seconds: float = 10.0
    max_tasks_per_isolate: int | None = None
    max_memory_per_isolate: int | None = None
    grace_seconds: float = 5.0
    warm_seconds: float | None = None
    limiter_fails_open: bool = False
    max_deaths: int = MAX_DEATHS
    install_signal_handlers: bool = True
    log_level: str = "info"
    log_format: str = "text"
    log_tasks: bool = True


@dataclass(frozen=True, slots=True)
class Source:
    """`kind` is flag, environment, file, default or follows; `name` is the flag, the variable, the file, or the path of
    the option that is followed."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return "default" if self.kind == "default" else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Effective:
    """Each option's value by path, its source, and all that is wrong. With errors, the values are not to be used."""

    values: dict[str, Any] = field(repr=False)  # some are secret
    sources: dict[str, Source]
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def check(self) -> "Effective":
        """Raises ConfigError with every error."""
        if self.errors:
            raise ConfigError(" ".join(self.errors))
        return self

    @property
    def settings(self) -> Settings:
        return settings_of(self.values)

    @property
    def worker(self) -> WorkerOptions:
        told = zip(WorkerOptions.__struct_fields__, WORKER_OPTIONS, strict=True)
        return WorkerOptions(**{name: self.values[option.path] for name, option in told})

    @property
    def autoscale(self) -> Autoscale:
        return autoscale_of(self.values)

    def shown(self) -> list[tuple[str, Any, Source]]:
        """Path, value and source of each option, nothing secret among them."""
        return [(option.path, *self._told(option)) for option in OPTIONS]

    def _told(self, option: Option) -> tuple[Any, Source]:
        value, source = self.values[option.path], self.sources[option.path]
        if value is None and option.follows:
            leader = next(each for each in OPTIONS if each.path == option.follows)
            followed, origin = self._told(leader)
            return followed, origin if origin.kind == "follows" else Source("follows", leader.path)
        return option.shown(value), source


def merge(
    *,
    flags: Mapping[str, tuple[str, Any]],
    env: Mapping[str, str],
    document: Mapping[Any, Any],
    file: str = "",
) -> Effective:
    """A flag before the environment, that before the file, that before the default. Flags come as a name and a value by
    path. Nothing is raised: what is wrong is told, all of it at once."""
    by_flag = _read_flags(flags)
    # A flag stands in for its variable, so that a broken variable harms nobody who overrides it.
    by_variable = read_environment([option for option in OPTIONS if option.path not in flags], env)
    by_file = read_document(document)
    values, sources = defaults(OPTIONS), {option.path: Source("default") for option in OPTIONS}
    names = {option.path: option.variable for option in OPTIONS}
    for path, value in by_file.values.items():
        values[path], sources[path] = value, Source("file", file)
    for path, value in by_variable.values.items():
        values[path], sources[path] = value, Source("environment", names[path])
    for path, value in by_flag.values.items():
        values[path], sources[path] = value, Source("flag", flags[path][0])
    errors = [
        *by_flag.errors,
        *by_variable.errors,
        *(f"{file}: {error}" if file else error for error in by_file.errors),
    ]
    warnings = [f"{file}: {warning}" if file else warning for warning in by_file.warnings]
    return Effective(
        values, sources, errors or _conflicts(values), [*warnings, *_unknown_variables(env), *_doubts(values)]
    )


def read_document(document: Mapping[Any, Any]) -> Reading:
    """Every block of a file."""
    top = {key: value for key, value in document.items() if _block_named(key) is None}
    readings = [read_block(_options_of(""), "", top, neighbours=filter(None, _BLOCKS))]
    for key, value in document.items():
        block = _block_named(key)
        if block is not None:
            readings.append(_read_named(block, value))
    return _joined(readings)


def _read_named(block: str, value: object) -> Reading:
    if isinstance(value, str) and block in _SHORT:
        value = {_SHORT[block]: value}
    if value is None:
        return Reading()
    if not isinstance(value, Mapping):
        keys = ", ".join(option.name for option in _options_of(block))
        return Reading(errors=[f"{block} is a {type(value).__name__}; use a block with keys like {keys}."])
    return read_block(_options_of(block), block, value)


def _read_flags(flags: Mapping[str, tuple[str, Any]]) -> Reading:
    options = {option.path: option for option in OPTIONS}
    reading = Reading()
    for path, (flag, value) in flags.items():
        try:
            reading.values[path] = options[path].kind.read(value)
        except ValueError as expected:
            reading.errors.append(f"{flag} is not {expected}.")
    return reading


def _joined(readings: Iterable[Reading]) -> Reading:
    joined = Reading()
    for reading in readings:
        joined.values.update(reading.values)
        joined.errors.extend(reading.errors)
        joined.warnings.extend(reading.warnings)
    return joined


def _options_of(block: str) -> Sequence[Option]:
    return [option for option in OPTIONS if option.block == block]


def _block_named(key: object) -> str | None:
    return key if isinstance(key, str) and key and key in _BLOCKS else None


def _conflicts(values: Mapping[str, Any]) -> list[str]:
    """What is right by itself and wrong together."""
    errors = []
    try:
        autoscale.check(autoscale_of(values))
    except ConfigError as error:
        errors.append(str(error))
    errors += control_faults(settings_of(values).control)
    soft, hard = values["worker.softLimit"], values["worker.hardLimit"]
    if soft and hard and soft >= hard:
        errors.append(f"worker.softLimit of {soft:g} s is not below worker.hardLimit of {hard:g} s; lower it.")
    return errors


def _doubts(values: Mapping[str, Any]) -> list[str]:
    """What works, and is hardly meant."""
    scaling, concurrency = autoscale_of(values), values["worker.concurrency"]
    if scaling.enabled and concurrency and not scaling.minimum <= concurrency <= scaling.maximum:
        return [
            f"worker.concurrency {concurrency} is outside of autoscale.min {scaling.minimum} to autoscale.max "
            f"{scaling.maximum}, and autoscaling is enabled; the worker moves inside at once."
        ]
    return []


def _unknown_variables(env: Mapping[str, str]) -> list[str]:
    known = {option.variable: option.variable for option in OPTIONS if option.variable}
    known |= {name: name for name in OTHER_VARIABLES}
    strangers = [name for name in sorted(env) if name.startswith("STEM_") and name not in known]
    return [f"{name} is not known, and ignored{near(name, known)}" for name in strangers]
