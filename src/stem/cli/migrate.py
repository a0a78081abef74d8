"""`stem migrate`: what moving a project from Celery takes, and its schedules out of Django's tables."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stem.cli.support import printing
from stem.cli.support.lazy_group import SuggestingGroup
from stem.cli.support.stores import Session, in_session
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from stem.compat.migration.findings import Findings

SOMETHING_REFUSED = 3


@click.group(cls=SuggestingGroup)
def migrate() -> None:
    """Move a project to Stem.

    \b
    Example: stem migrate celery .
    """


@migrate.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--write", is_flag=True, help="Change the import lines in place.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
def celery(path: Path, write: bool, as_json: bool) -> None:
    """Report what of a Celery project works with the bridge, what does not, and why.

    The project is read, and none of it is run. The exit code is 3 if something will not work.

    \b
    Example: stem migrate celery shop/
             stem migrate celery shop/ --write
    """
    from stem.compat.migration.celery_project import read_project, rewrite

    findings = read_project(path)
    changed = rewrite(path) if write else []
    if as_json:
        _print_json(findings, changed)
    else:
        _print(findings, changed, is_written=write)
    if not findings.can_move:
        raise click.exceptions.Exit(SOMETHING_REFUSED)


@migrate.command("django-celery-beat")
@in_session
def django_celery_beat(session: Session) -> None:
    """Import the schedules of django-celery-beat from Django's database, once.

    The app is named by --app. Entries that exist already are changed to what the tables say.

    \b
    Example: stem migrate django-celery-beat --app shop.celery:app
    """
    import os

    from stem.compat.celery.app.bridged import BridgedStem
    from stem.compat.migration.django_beat import read_schedules
    from stem.scheduler.entries import EntryWriter

    path = session.app_path or os.environ.get("STEM_APP")
    app = session.load_app(path) if path else None
    if not isinstance(app, BridgedStem):
        raise UsageError("Name the app of the Celery bridge: stem migrate django-celery-beat --app shop.celery:app.")
    read = read_schedules(app)
    writer = EntryWriter.of(app.store, app.settings)
    for entry in read.entries:
        found = app.store.schedules.get(entry.id)
        writer.save(writer.edited(entry, found), found)
    if session.as_json:
        printing.json({"imported": [entry.id for entry in read.entries], "refused": read.refused})
    else:
        click.echo(f"Imported {len(read.entries)} schedules; run them with: stem beat --app {path}")
        for name, why in read.refused.items():
            click.echo(f"  not imported: {name}: {why}")
    if read.refused:
        raise click.exceptions.Exit(SOMETHING_REFUSED)


def _print_json(findings: "Findings", changed: list[str]) -> None:
    import msgspec

    told = msgspec.to_builtins(findings)
    printing.json({"canMove": findings.can_move, "changed": changed, **told})


def _print(findings: "Findings", changed: list[str], *, is_written: bool) -> None:
    from stem.compat.migration.findings import Verdict

    works, differs, refused = (findings.of(verdict) for verdict in (Verdict.WORKS, Verdict.DIFFERS, Verdict.REFUSED))
    for title, found in (("Will not work", refused), ("Needs nothing, or works otherwise", differs)):
        if found:
            click.echo(f"{title}:")
            for each in found:
                click.echo(f"  {each.file}:{each.line}  {each.what}\n      {each.why}")
    for file, why in findings.unreadable.items():
        click.echo(f"Not read: {file}: {why}")
    lines = len({(each.file, each.line) for each in works})
    click.echo(
        f"{findings.files} files: {lines} import lines work with the bridge, {len(differs)} notes, {len(refused)} refused."
    )
    if is_written:
        click.echo(f"Changed the import lines of {len(changed)} files.")
    elif works:
        click.echo("Change them with: stem migrate celery PATH --write")
