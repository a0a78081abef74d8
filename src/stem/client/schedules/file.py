"""Read the schedules of a YAML file: `schedules` of stem.yaml, or what `stem schedule export` prints."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from stem.client.task.options import CallPlan, planned
from stem.contracts.schedules import ScheduleEntry
from stem.core.errors import ConfigError, InvalidSchedule, InvalidTask
from stem.runtime.configfile import SCHEDULES, line_of, read

NOT_WRITTEN = ("version", "declared", "origin", "source", "seal")  # fields that a store keeps and no file has
_PLAIN_CALL = CallPlan(queue="default", max_retries=0)
_FIELD = re.compile(r"at `\$\.(\w+)|unknown field `(\w+)")


class FileEntry(ScheduleEntry, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """An entry as a file has it."""


def read_schedules(path: Path, *, is_required: bool = False, most_bytes: int | None = None) -> list[ScheduleEntry]:
    """Return the entries of the file, a list or a mapping by id. Raises ConfigError, naming the line."""
    given = read(path) if most_bytes is None else read(path, most_bytes)
    content = given.get(SCHEDULES)
    if content is None and not is_required:
        return []
    if not isinstance(content, list | dict):
        where = f"{path}, line {line_of(path, [SCHEDULES])}" if SCHEDULES in given else path
        raise ConfigError(f"{where}: there is no list `{SCHEDULES}`; see one with: stem schedule export")
    entries: dict[str, ScheduleEntry] = {}
    for key, fields in _items(content):
        entry = _read_entry(path, key, fields)
        if entry.id in entries:
            raise _error(path, [key], f"two schedules have the id {entry.id}; give one of them another.")
        entries[entry.id] = entry
    return list(entries.values())


def _items(content: list[Any] | dict[Any, Any]) -> Iterator[tuple[int | str, Any]]:
    """Yield each entry with its place; the key of a mapping is the id."""
    if isinstance(content, list):
        yield from enumerate(content)
        return
    for key, fields in content.items():
        yield key, {"id": str(key), **fields} if isinstance(fields, Mapping) else fields


def _read_entry(path: Path, key: int | str, fields: Any) -> ScheduleEntry:
    from stem.client.schedules.check import check_entry  # here: a file without schedules needs no calendar

    try:
        read = msgspec.convert(fields, FileEntry)
        if kept := [name for name in NOT_WRITTEN if name in fields]:
            raise msgspec.ValidationError(f"Object contains unknown field `{kept[0]}`")
    except msgspec.ValidationError as error:
        found = _FIELD.search(str(error))
        field = next(filter(None, found.groups()), "") if found else ""
        raise _error(
            path, [key, field], f"schedule {_name(key, fields)} is wrong: {error}; correct it there."
        ) from error
    try:
        planned(_PLAIN_CALL, read.options)
        plain = {name: getattr(read, name) for name in ScheduleEntry.__struct_fields__ if name not in NOT_WRITTEN}
        return check_entry(msgspec.convert(msgspec.to_builtins(ScheduleEntry(**plain)), ScheduleEntry))
    except (InvalidSchedule, InvalidTask) as error:
        raise _error(path, [key], f"schedule {read.id}: {error}") from error


def _name(key: int | str, fields: Any) -> str:
    return str(fields["id"]) if isinstance(fields, Mapping) and "id" in fields else str(key)


def _error(path: Path, place: list[int | str], sentence: str) -> ConfigError:
    return ConfigError(f"{path}, line {line_of(path, [SCHEDULES, *place])}: {sentence}")
