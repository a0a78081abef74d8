"""Declare schedules beside the tasks that they enqueue."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from stem.client.task.options import Duration, planned
from stem.client.task.policy import seconds
from stem.client.task.task import Task
from stem.contracts.schedules import Misfire, Overlap, ScheduleEntry
from stem.core.envelope import check_id, check_moment
from stem.core.errors import InvalidTask
from stem.core.text.plain import to_plain


class ScheduleOptions(TypedDict, total=False):
    """Options of `@app.schedule`; None means not given."""

    id: str | None  # default: the task's name
    args: Mapping[str, Any] | None
    options: Mapping[str, Any] | None  # of each call, as in `task.options(…)`
    time_zone: str | None  # default: UTC
    latitude: float | None  # of a solar event
    longitude: float | None
    jitter: Duration | None
    starts_at: datetime | None
    ends_at: datetime | None
    max_runs: int | None
    misfire: Misfire | None  # default: once
    misfire_window: Duration | None
    overlap: Overlap | None  # default: allow
    pause_after_failures: int | None
    enabled: bool | None
    note: str | None


def declared_entry(task: Task[..., Any], spec: str, given: ScheduleOptions) -> ScheduleEntry:
    """Return the entry of one `@app.schedule`. Raises InvalidSchedule, InvalidTask, InvalidArguments."""
    from stem.client.schedules.check import check_entry  # here: most apps declare no schedules

    if not isinstance(task, Task):
        raise InvalidTask("@app.schedule belongs above @app.task: it schedules a task, and this is none.")
    if unknown := given.keys() - ScheduleOptions.__annotations__.keys():
        known = ", ".join(ScheduleOptions.__annotations__)
        raise InvalidTask(f"There is no schedule option {min(unknown)!r}; there are {known}.")
    found: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name, field in (("jitter", "jitter_seconds"), ("misfire_window", "misfire_window_seconds")):
        if name in found:
            found[field] = seconds(name, found.pop(name))
    for name in ("starts_at", "ends_at"):
        if name in found:
            found[name] = check_moment(found[name], name)
    if "enabled" in found:
        found["is_enabled"] = found.pop("enabled")
    options = dict(found.pop("options", {}))
    planned(task.definition.plan, options)
    if _plain(options) != options:
        raise InvalidTask(
            "The options of a schedule are stored as JSON; write durations as text or numbers of seconds."
        )
    if sensitive := planned(task.definition.plan, options).sensitive:
        options["sensitive"] = list(sensitive)  # so that who reads the entry without the app masks them as well
    arguments = _plain(task.bind_object(found.pop("args", {})))
    entry = ScheduleEntry(
        id=check_id(found.pop("id", task.name)),
        task=task.name,
        spec=spec,
        args=arguments,
        options=options,
        **found,
    )
    return check_entry(entry)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """As they will be read from the store."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(dict(values), enc_hook=to_plain))
    return plain
