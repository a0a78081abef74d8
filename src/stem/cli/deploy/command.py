"""`stem deploy init`: write units, images, manifests or a chart for the services of an app."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stem.cli.support import printing
from stem.cli.support.flags.options import quiet_traceback
from stem.cli.support.flags.several import json_output
from stem.cli.support.lazy_group import SuggestingGroup
from stem.core.errors import UsageError

if TYPE_CHECKING:
    from stem.cli.deploy.values import Deployment

TARGETS = ("systemd", "docker", "compose", "k8s", "helm")


@click.group(cls=SuggestingGroup)
def deploy() -> None:
    """Write what runs an app in production.

    \b
    Example: stem deploy init k8s --app shop.tasks:app
    """


@deploy.command()
@click.argument("target", type=click.Choice(TARGETS))
@click.option("-A", "--app", "app_path", metavar="MODULE:NAME", help="The app.  [env: STEM_APP]")
@click.option("-Q", "--queue", "queues", multiple=True, help="Serve only this queue; may be repeated.")
@click.option("--name", help="Name the services.  [default: the app's package]")
@click.option("--image", help="The image of the app.  [default: NAME:1]")
@click.option("--folder", help="Where the app is on the server, for systemd.  [default: /srv/NAME]")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write here.  [default: deploy/TARGET]")
@click.option("--force", is_flag=True, help="Replace files that exist.")
@json_output
@quiet_traceback
def init(
    target: str,
    app_path: str | None,
    queues: tuple[str, ...],
    name: str | None,
    image: str | None,
    folder: str | None,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the files that run worker, scheduler, dashboard and pipeline.

    They are yours to read, change and keep with your code. No file holds a secret: services find the store's URL and the
    dashboard's token in their environment.

    \b
    Example: stem deploy init systemd --app shop.tasks:app
             stem deploy init k8s --app shop.tasks:app --image shop:7 --queue mail
    """
    from stem.cli.deploy.files import next_commands, texts
    from stem.cli.support.templates import write

    deployment = _deployment(app_path or _configured_app(), queues, name, image, folder)
    place = out or Path("deploy") / target
    written = write(texts(target, deployment, place), place, force=force)
    then = next_commands(target, deployment, place)
    if as_json:
        printing.json({"target": target, "written": [str(path) for path in written], "next": then})
        return
    for path in written:
        click.echo(printing.plain(f"wrote {path}"))
    click.echo("\nNext:")
    for line in then:
        click.echo(printing.plain(f"  {line}"))


def _deployment(
    app: str, queues: tuple[str, ...], name: str | None, image: str | None, folder: str | None
) -> "Deployment":
    from stem.cli.deploy.values import Deployment, name_of

    called = name_of(app) if name is None else name
    return Deployment(
        app=app,
        name=called,
        image=f"{called}:1" if image is None else image,
        queues=tuple(dict.fromkeys(queues)),
        folder=f"/srv/{called}" if folder is None else folder,
    )


def _configured_app() -> str:
    from stem.runtime.configfile import load

    app = load(os.environ).check().process.app
    if not app:
        raise UsageError("Name the app to run: --app shop.tasks:app, STEM_APP, or worker.app in stem.yaml.")
    return app
