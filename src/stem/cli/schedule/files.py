"""`stem schedule apply` and `export`: schedules as a YAML file."""

from pathlib import Path

import click

from stem.cli.support import printing
from stem.cli.support.stores import Session, in_session

MOST_BYTES = 64 * 1024 * 1024


@click.command()
@click.option("-f", "--file", "path", required=True, type=click.Path(path_type=Path), help="A YAML file of schedules.")
@in_session
def apply(session: Session, path: Path) -> None:
    """Create or change the schedules of a file, which is checked whole first.

    \b
    Example: stem schedule apply -f schedules.yaml
    """
    from stem.client.schedules.file import read_schedules
    from stem.contracts.schedules import is_same_entry
    from stem.scheduler.entries import EntryWriter, ScheduleChanged

    entries = read_schedules(path, is_required=True, most_bytes=MOST_BYTES)
    changed: list[str] = []
    with session.store() as store:
        writer = EntryWriter.of(store, session.settings())
        for entry in entries:
            found = store.schedules.get(entry.id)
            edited = writer.edited(entry, found)
            if found is not None and is_same_entry(found.entry, writer.sealed(edited)):
                continue
            if writer.save(edited, found) is None:
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

    from stem.client.schedules.file import NOT_WRITTEN

    with session.store() as store:
        entries = [msgspec.to_builtins(each.entry) for each in store.schedules.all()]
    plain = [{name: value for name, value in entry.items() if name not in NOT_WRITTEN} for entry in entries]
    if session.as_json:
        printing.json({"schedules": plain})
    else:
        click.echo(yaml.safe_dump({"schedules": plain}, sort_keys=False, allow_unicode=False).rstrip())
