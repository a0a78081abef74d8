"""Schedules of django-celery-beat, read from its tables, as entries of Stem's."""

import json
from typing import Any

import msgspec

from stem.client.schedules.check import check_entry
from stem.compat.celery.app.bridged import BridgedStem, schedule_options, schedule_spec
from stem.compat.celery.schedules import crontab, schedule, solar
from stem.contracts.schedules import ScheduleEntry
from stem.core.errors import StemError, UsageError


class ReadSchedules(msgspec.Struct, frozen=True):
    """The entries, and why others have none."""

    entries: list[ScheduleEntry]
    refused: dict[str, str]


def read_schedules(app: BridgedStem) -> ReadSchedules:
    """Read the tables of django-celery-beat through Django, which the app has set up. Raises UsageError."""
    try:
        from django.apps import apps

        periodic_task = apps.get_model("django_celery_beat", "PeriodicTask")
    except Exception as error:
        raise UsageError(
            f"The tables of django-celery-beat cannot be read ({type(error).__name__}: {error}); set DJANGO_SETTINGS_MODULE, "
            "and keep 'django_celery_beat' in INSTALLED_APPS until its schedules are imported."
        ) from error
    entries, refused = [], {}
    for row in periodic_task.objects.select_related("interval", "crontab", "solar", "clocked").order_by("name"):
        if row.task.startswith("celery."):
            continue  # its own upkeep
        try:
            entries.append(_entry(app, row))
        except (StemError, ValueError) as error:
            refused[row.name] = str(error)
    return ReadSchedules(entries, refused)


def _entry(app: BridgedStem, row: Any) -> ScheduleEntry:
    options = {"queue": row.queue, "priority": row.priority, "expires": row.expire_seconds}
    form = {
        "task": row.task,
        "schedule": _when(row),
        "args": json.loads(row.args or "[]"),
        "kwargs": json.loads(row.kwargs or "{}"),
        "options": {name: value for name, value in options.items() if value is not None},
    }
    found = schedule_options(app.bridge.conf, row.name, form)
    if row.crontab is not None:
        found["time_zone"] = str(row.crontab.timezone)
    if row.one_off:
        found["max_runs"] = 1
    spec = f"at {row.clocked.clocked_time.isoformat()}" if row.clocked is not None else schedule_spec(form)
    entry = ScheduleEntry(
        task=row.task,
        spec=spec,
        is_enabled=row.enabled,
        starts_at=row.start_time,
        note=row.description[:200],
        **found,
    )
    return check_entry(entry)


def _when(row: Any) -> Any:
    if row.interval is not None:
        return schedule(row.interval.schedule.run_every)
    if row.crontab is not None:
        of = row.crontab
        return crontab(of.minute, of.hour, of.day_of_week, of.day_of_month, of.month_of_year)
    if row.solar is not None:
        return solar(row.solar.event, float(row.solar.latitude), float(row.solar.longitude))
    return None
