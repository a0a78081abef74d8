"""Reads the setting STEM. Its keys are those of Stem's environment variables without `STEM_`, and some of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connections

from stem.core.errors import ConfigError
from stem.core.settings.app import Settings
from stem.core.settings.setting import declared, did_you_mean
from stem.core.settings.worker import WorkerProcess, WorkerSettings

_OF_APPS = frozenset(each.variable for each in declared(Settings) if each.variable) | {"STEM_CONFIG"}
_OF_WORKERS = frozenset(
    each.variable for each in (*declared(WorkerProcess), *declared(WorkerSettings)) if each.variable
)  # STEM_APP is one of them


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """`database` is the alias whose transactions tasks join."""

    database: str = "default"
    app_path: str | None = None
    of_apps: Mapping[str, str] = field(default_factory=dict, repr=False)  # environment variables; some are secret
    of_workers: Mapping[str, str] = field(default_factory=dict)


def read_project_settings() -> ProjectSettings:
    """Raises ConfigError."""
    given = getattr(settings, "STEM", {})
    if not isinstance(given, Mapping):
        raise ConfigError('The setting STEM is not a dict; write it like STEM = {"BROKER_URL": "redis://localhost"}.')
    given = {key: value for key, value in given.items() if value is not None}
    database = given.pop("DATABASE", "default")
    if database not in connections.settings:
        raise ConfigError(f"STEM['DATABASE'] is {database!r}, which DATABASES does not have; name one that it has.")
    given.pop("DASHBOARD_URL", None)  # where the admin's link leads
    variables = {f"STEM_{key}": value for key, value in given.items()}
    for name in variables.keys() - _OF_APPS - _OF_WORKERS:
        known = {each.removeprefix("STEM_"): each.removeprefix("STEM_") for each in _OF_APPS | _OF_WORKERS}
        hint = did_you_mean(name.removeprefix("STEM_"), known)
        raise ConfigError(f"STEM[{name.removeprefix('STEM_')!r}] is no setting of Stem's{hint}")
    texts = {name: _text(name, value) for name, value in variables.items()}
    return ProjectSettings(
        database,
        texts.get("STEM_APP"),
        {name: text for name, text in texts.items() if name in _OF_APPS},
        {name: text for name, text in texts.items() if name in _OF_WORKERS},
    )


def _text(name: str, value: Any) -> str:
    """The value as an environment variable would have it."""
    match value:
        case bool():
            return str(value).lower()
        case timedelta():
            return f"{value.total_seconds():g}s"
        case list() | tuple():
            return ",".join(map(str, value))
        case dict():
            raise ConfigError(f"STEM[{name.removeprefix('STEM_')!r}] is a dict; put it into stem.yaml.")
        case _:
            return str(value)
