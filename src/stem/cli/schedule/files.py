"""`stem schedule apply` and `export`: schedules as a YAML file."""

from pathlib import Path
from typing import Any

import click

from stem.cli.support import printing
from stem.cli.support.stores import Session, in_session
from stem.core.errors import UsageError

_STORED = ("version", "declared", "origin", "source", "seal")  # not for people to write


@click.command()
@click.option("-f", "--file", "path", required=True, type=click.Path(path_type=Path), help="A YAML file of schedules.")
@in_session
def apply(session: Session, path: Path) -> None:
    """Create or change the schedules of a file, which is checked whole first.

    \b
    Example: stem schedule apply -f schedules.yaml
    """
    from stem.scheduler.entries import EntryWriter, ScheduleChanged

    entries = _read(path)
    changed: list[str] = []
    with session.store() as store:
        writer = EntryWriter.of(store, session.settings())
        for entry in entries:
            found = store.schedules.get(entry.id)
            if found is not None and _same(found.entry, entry):
                continue
            if writer.save(entry, found) is None:
                raise ScheduleChanged(
                    f"Schedule {entry.id} was changed by somebody else meanwhile; apply the file again."
                )
            changed.append(entry.id)
    if session.as_json:
        printing.json({"changed": changed, "unchanged": len(entries) - len(changed)})
    else:
        click.echo(f"Changed {len(changed)} of {len(entries)}.")


@click.command()
@in_session
def export(session: Session) -> None:
    """Print all schedules as YAML, for `stem schedule apply`.

    \b
    Example: stem schedule export > schedules.yaml
    """
    import msgspec
    import yaml

    with session.store() as store:
        entries = [msgspec.to_builtins(each.entry) for each in store.schedules.all()]
    plain = [{name: value for name, value in entry.items() if name not in _STORED} for entry in entries]
    if session.as_json:
        printing.json({"schedules": plain})
    else:
        click.echo(yaml.safe_dump({"schedules": plain}, sort_keys=False, allow_unicode=False).rstrip())


def _read(path: Path) -> list[Any]:
    """Return the entries of the file. Raises UsageError."""
    import msgspec
    import yaml

    from stem.contracts.schedules import ScheduleEntry
    from stem.scheduler.entries import check_entry

    class FileEntry(ScheduleEntry, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True): ...

    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); name another file.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(content, dict) or not isinstance(content.get("schedules"), list):
        raise UsageError(f"{path} has no list `schedules`; see what one looks like with: stem schedule export")
    entries: dict[str, ScheduleEntry] = {}
    for number, given in enumerate(content["schedules"], 1):
        try:
            read = msgspec.convert(given, FileEntry)
        except msgspec.ValidationError as error:
            raise UsageError(f"Schedule {number} of {path} is wrong: {error}.") from error
        fields = {name: getattr(read, name) for name in ScheduleEntry.__struct_fields__ if name not in _STORED}
        entry = check_entry(ScheduleEntry(**fields, source="file"))
        if entry.id in entries:
            raise UsageError(f"{path} has two schedules of the id {entry.id}; give one of them another.")
        entries[entry.id] = entry
    return list(entries.values())


def _same(stored: Any, entry: Any) -> bool:
    import msgspec

    return bool(msgspec.structs.replace(stored, version=0, seal="") == entry)
