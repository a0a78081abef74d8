"""Parse objectives such as `email.send:p95_wait<5s`, and check whether they were met."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from stem.core.errors import StemError, UsageError
from stem.core.settings.kinds import duration

_OBJECTIVE = re.compile(
    r"(?P<task>[^:]*):(?P<figure>p50|p95|p99|max)_(?P<what>wait|run)<=?(?P<bound>[0-9.]+(?:ms|s|m|h|d)?)"
)
_SUCCESS = re.compile(r"(?P<task>[^:]*):success>=?(?P<bound>[0-9.]+)%")
ANY_TASK = "*"


class Objective(msgspec.Struct, frozen=True, rename="camel"):
    """`figure` is a column of the rollups; `bound` its maximum in seconds, or for `success` its minimum as a share."""

    text: str
    task: str
    figure: str
    bound: float


class Attainment(msgspec.Struct, frozen=True, rename="camel"):
    """`measured` and `is_met` are None if nothing ran."""

    objective: str
    task: str
    measured: float | None
    is_met: bool | None


class ObjectiveMissed(StemError):
    """An objective of the report was not met."""

    exit_code = 3


def objective(text: str) -> Objective:
    """Raises UsageError."""
    plain = text.replace(" ", "")
    if found := _OBJECTIVE.fullmatch(plain):
        seconds = duration(found["bound"])
        if seconds is not None:
            name = f"{found['what']}_most" if found["figure"] == "max" else f"{found['what']}_{found['figure']}"
            return Objective(text, found["task"] or ANY_TASK, name, seconds)
    if found := _SUCCESS.fullmatch(plain):
        return Objective(text, found["task"] or ANY_TASK, "success", float(found["bound"]) / 100)
    raise UsageError(
        f"{text!r} is no objective; write TASK:p95_wait<5s, TASK:p99_run<2m or TASK:success>99.5%, with * for every task."
    )


def attained(wanted: Objective, tasks: Mapping[str, Mapping[str, Any]], overall: Mapping[str, Any]) -> Attainment:
    """`tasks` by name, `overall` for all of them: the columns of the rollups."""
    row = overall if wanted.task == ANY_TASK else tasks.get(wanted.task, {})
    measured = success(row) if wanted.figure == "success" else row.get(wanted.figure)
    if measured is None:
        return Attainment(wanted.text, wanted.task, None, None)
    is_met = measured >= wanted.bound if wanted.figure == "success" else measured <= wanted.bound
    return Attainment(wanted.text, wanted.task, measured, is_met)


def success(row: Mapping[str, Any]) -> float | None:
    """The share of succeeded tasks among those that succeeded or failed."""
    ended = (row.get("succeeded") or 0) + (row.get("failed") or 0)
    return None if not ended else (row.get("succeeded") or 0) / ended
