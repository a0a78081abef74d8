"""Merge flags, environment, file and defaults into one configuration that knows where each value came from."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stem.core.errors import ConfigError
from stem.core.settings.app import Settings
from stem.core.settings.control import control_problems
from stem.core.settings.routes import KEY as ROUTES_KEY
from stem.core.settings.routes import is_routes, routes_of_file
from stem.core.settings.setting import (
    Setting,
    SourceValues,
    build,
    declared,
    did_you_mean,
    read_block,
    read_environment,
)
from stem.core.settings.worker import WorkerProcess, WorkerSettings, worker_problems

_DECLARED = [each for struct in (Settings, WorkerSettings, WorkerProcess) for each in declared(struct) if each.key]
_BLOCKS = tuple(dict.fromkeys(setting.block for setting in _DECLARED))
SETTINGS = tuple(sorted(_DECLARED, key=lambda setting: _BLOCKS.index(setting.block)))
_BY_KEY = {setting.key: setting for setting in SETTINGS}

# Variables that Stem reads and that are no settings of a store, a client or a worker.
OTHER_VARIABLES = (
    "STEM_CACHE_DIR",
    "STEM_CONFIG",
    "STEM_DASHBOARD_TOKEN",
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

# Keys of a file that are no settings; `client.schedules.file` reads them.
OTHER_KEYS = ("schedules",)

# A block that is only a string stands for its most important key.
_SHORT = {"broker": "url", "results": "url", "revokes": "url", "signing": "keys"}


@dataclass(frozen=True, slots=True)
class ValueSource:
    """`kind` is flag, environment, file, default or follows; `name` is the flag, the variable, the file, or the key of
    the setting that is followed."""

    kind: str
    name: str = ""

    def __str__(self) -> str:
        return "default" if self.kind == "default" else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """Each setting's value by key, its source, and everything that is wrong. With errors, the values are not to be used."""

    values: dict[str, Any] = field(repr=False)  # some are secret
    sources: dict[str, ValueSource]
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def check(self) -> "EffectiveSettings":
        """Raises ConfigError with every error."""
        if self.errors:
            raise ConfigError(" ".join(self.errors))
        return self

    @property
    def settings(self) -> Settings:
        return build(Settings, self.values)

    @property
    def worker(self) -> WorkerSettings:
        return build(WorkerSettings, self.values)

    @property
    def process(self) -> WorkerProcess:
        return build(WorkerProcess, self.values)

    def shown(self) -> list[tuple[str, Any, ValueSource]]:
        """Return key, value and source of each setting, without secrets."""
        return [(setting.key, *self._shown(setting)) for setting in SETTINGS]

    def _shown(self, setting: Setting) -> tuple[Any, ValueSource]:
        value, source = self.values[setting.key], self.sources[setting.key]
        if value is None and setting.follows:
            followed, origin = self._shown(_BY_KEY[setting.follows])
            return followed, origin if origin.kind == "follows" else ValueSource("follows", setting.follows)
        return setting.shown(value), source


def merge(
    *,
    flags: Mapping[str, tuple[str, Any]],
    env: Mapping[str, str],
    document: Mapping[Any, Any],
    file: str = "",
) -> EffectiveSettings:
    """Merge the sources: a flag counts before the environment, that before the file, that before the default. Flags are
    given by key, each as its name and its value. Nothing is raised: all errors are reported at once."""
    by_file = read_document(document)
    routes, route_errors = routes_of_file(next((document[key] for key in document if is_routes(key)), None), file)
    if routes:
        by_file.values[ROUTES_KEY] = routes
    # A flag replaces its variable, so a broken variable does no harm if a flag overrides it.
    by_variable = read_environment([setting for setting in SETTINGS if setting.key not in flags], env)
    by_flag = _read_flags(flags)
    values = {setting.key: setting.unset for setting in SETTINGS} | by_file.values | by_variable.values | by_flag.values
    sources = dict.fromkeys(values, ValueSource("default"))
    sources |= dict.fromkeys(by_file.values, ValueSource("file", file))
    sources |= {key: ValueSource("environment", _BY_KEY[key].variable) for key in by_variable.values}
    sources |= {key: ValueSource("flag", flags[key][0]) for key in by_flag.values}
    where = f"{file}: " if file else ""
    errors = [*by_flag.errors, *by_variable.errors, *(where + error for error in by_file.errors), *route_errors]
    warnings = [*(where + warning for warning in by_file.warnings), *_unknown_variables(env)]
    merged = EffectiveSettings(values, sources, errors, warnings)
    if not errors:
        errors += [*worker_problems(merged.worker), *control_problems(merged.settings.control)]
        warnings += _doubts(merged.worker)
    return merged


def _is_read_apart(key: object) -> bool:
    return _block_named(key) is not None or is_routes(key) or key in OTHER_KEYS


def read_document(document: Mapping[Any, Any]) -> SourceValues:
    """Read every block of a file except the schedules, and the routes, whose errors name their lines."""
    top = {key: value for key, value in document.items() if not _is_read_apart(key)}
    readings = [read_block(_settings_in(""), "", top, neighbours=filter(None, (*_BLOCKS, *OTHER_KEYS)))]
    for key, value in document.items():
        block = _block_named(key)
        if block is not None:
            readings.append(_read_named(block, value))
    return _joined(readings)


def _read_named(block: str, value: object) -> SourceValues:
    if isinstance(value, str) and block in _SHORT:
        value = {_SHORT[block]: value}
    if value is None:
        return SourceValues()
    if not isinstance(value, Mapping):
        keys = ", ".join(setting.name for setting in _settings_in(block))
        return SourceValues(errors=[f"{block} is a {type(value).__name__}; use a block with keys like {keys}."])
    return read_block(_settings_in(block), block, value)


def _read_flags(flags: Mapping[str, tuple[str, Any]]) -> SourceValues:
    reading = SourceValues()
    for key, (flag, value) in flags.items():
        try:
            reading.values[key] = _BY_KEY[key].kind.read(value)
        except ValueError as expected:
            reading.errors.append(f"{flag} is not {expected}.")
    return reading


def _joined(readings: Iterable[SourceValues]) -> SourceValues:
    joined = SourceValues()
    for reading in readings:
        joined.values.update(reading.values)
        joined.errors.extend(reading.errors)
        joined.warnings.extend(reading.warnings)
    return joined


def _settings_in(block: str) -> Sequence[Setting]:
    return [setting for setting in SETTINGS if setting.block == block]


def _block_named(key: object) -> str | None:
    return key if isinstance(key, str) and key and key in _BLOCKS else None


def _doubts(worker: WorkerSettings) -> list[str]:
    """Return what works and is hardly meant."""
    scaling = worker.autoscale
    if scaling.enabled and worker.concurrency and not scaling.minimum <= worker.concurrency <= scaling.maximum:
        return [
            f"worker.concurrency {worker.concurrency} is outside of autoscale.min {scaling.minimum} to autoscale.max "
            f"{scaling.maximum}, and autoscaling is enabled; the worker moves inside at once."
        ]
    return []


def _unknown_variables(env: Mapping[str, str]) -> list[str]:
    known = {setting.variable: setting.variable for setting in SETTINGS if setting.variable}
    known |= {name: name for name in OTHER_VARIABLES}
    strangers = [name for name in sorted(env) if name.startswith("STEM_") and name not in known]
    return [f"{name} is not known, and ignored{did_you_mean(name, known)}" for name in strangers]
