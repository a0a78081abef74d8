"""`stem init`: write a project with a task, its test, settings and a Makefile."""

import re
import shlex
from importlib.metadata import version
from pathlib import Path

import click

from stem.cli.support import printing
from stem.cli.support.flags.options import quiet_traceback
from stem.cli.support.flags.several import json_output


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option("--force", is_flag=True, help="Replace files that exist.")
@json_output
@quiet_traceback
def init(folder: Path, force: bool, as_json: bool) -> None:
    """Write a small project: a task, its test, settings and a Makefile.

    It goes into FOLDER, which is created, or else into the working directory.

    \b
    Example: stem init shop
    """
    from stem.cli.support.templates import filled, write

    title = re.sub(r"[^\w-]+", " ", folder.resolve().name).strip() or "tasks"
    name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "tasks"
    values = {"title": title, "name": name, "version": version("stem-tasks")}
    written = write(filled("stem.cli.init", "template", values), folder, force=force)
    then = [*([] if folder == Path() else [f"cd {shlex.quote(str(folder))}"]), "make test", "make worker"]
    if as_json:
        printing.json({"written": [str(path) for path in written], "next": then})
        return
    for path in written:
        click.echo(printing.plain(f"wrote {path}"))
    click.echo("\nNext:")
    for line in then:
        click.echo(printing.plain(f"  {line}"))
