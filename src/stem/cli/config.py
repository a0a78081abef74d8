"""`stem config`: show the configuration, where each value comes from, and what is wrong with it."""

import os
from typing import TYPE_CHECKING, Any

import click

from stem.cli.support import printing
from stem.cli.support.failure import USAGE
from stem.cli.support.lazy_group import SuggestingGroup
from stem.cli.support.stores import Session, in_session_without_app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stem.core.settings.effective import EffectiveSettings, ValueSource

    Shown = list[tuple[str, Any, ValueSource]]

_FLAGS = {
    "broker.url": ("--broker-url", "broker_url"),
    "results.url": ("--results-url", "results_url"),
    "namespace": ("--namespace", "namespace"),
}


@click.group(cls=SuggestingGroup)
def config() -> None:
    """Show the configuration.

    A flag counts before the environment, that before the file, and that before the default.

    \b
    Example: stem config check
    """


@config.command()
@click.option("--config", "path", metavar="FILE", help="Read this file.  [env: STEM_CONFIG; default: ./stem.yaml]")
@in_session_without_app
def check(session: Session, path: str | None) -> None:
    """Print the configuration without secrets, and what is wrong with it.

    No store is connected to. Exit code 0 if it can be used, 64 if there are errors.

    \b
    Example: stem config check --config /etc/stem/stem.yaml --json
    """
    from stem.runtime.configfile import load

    given = {path: (flag, getattr(session, name)) for path, (flag, name) in _FLAGS.items()}
    flags = {path: (flag, value) for path, (flag, value) in given.items() if value is not None}
    effective = load(os.environ, path=path, flags=flags)
    shown = effective.shown()
    # A file that cannot be read is told by both.
    errors = list(dict.fromkeys([*effective.errors, *_unusable(effective), *_schedules(shown, path)]))
    if session.as_json:
        printing.json(_report(effective, shown, errors))
    else:
        _print(effective, shown, errors)
    if errors:
        click.get_current_context().exit(USAGE)


def _unusable(effective: "EffectiveSettings") -> "Iterator[str]":
    """Yield a sentence for each address and each list of keys that cannot be used."""
    from stem.client.stores import check_revokes_url, check_url
    from stem.core.errors import StemError
    from stem.runtime.keys import Keyring

    settings = effective.settings
    checks = [
        ("broker.url", check_url, settings.broker_url),
        ("results.url", check_url, settings.results_url),
        ("revokes.url", check_revokes_url, settings.revokes_url),
        ("signing.keys", Keyring.parse, settings.signing_keys),
        ("control.keys", Keyring.parse, settings.control.keys),
    ]
    for path, judge, value in checks:
        try:
            if value is not None:
                judge(value)
        except StemError as error:
            yield f"{path}: {error}"


def _schedules(shown: "Shown", path: str | None) -> "Iterator[str]":
    """Add the schedules of the file to what is shown, or yield what is wrong with them."""
    from stem.client.schedules.file import read_schedules
    from stem.core.errors import ConfigError
    from stem.core.settings.effective import ValueSource
    from stem.runtime.configfile import find

    try:
        file = find(os.environ, path)
        entries = [] if file is None else read_schedules(file)
    except ConfigError as error:
        yield str(error)
        return
    if entries:
        shown.append(("schedules", tuple(entry.id for entry in entries), ValueSource("file", str(file))))


def _report(effective: "EffectiveSettings", shown: "Shown", errors: list[str]) -> dict[str, Any]:
    return {
        "status": "error" if errors else "ok",
        "options": [
            {"option": option, "value": value, "source": source.kind, "name": source.name or None}
            for option, value, source in shown
        ],
        "errors": errors,
        "warnings": effective.warnings,
    }


def _print(effective: "EffectiveSettings", shown: "Shown", errors: list[str]) -> None:
    rows = [(option, _spelled(value), source) for option, value, source in shown]
    printing.table(("option", "value", "from"), rows, empty="")
    lines = [*(("error", sentence) for sentence in errors), *(("warning", told) for told in effective.warnings)]
    click.echo()
    for kind, sentence in lines:
        click.echo(printing.plain(f"{kind}: {sentence}"))
    if not errors:
        click.echo("No errors.")


def _spelled(value: object) -> str:
    """Write a value as a file would."""
    match value:
        case None | "" | ():
            return "-"
        case bool():
            return "true" if value else "false"
        case tuple():
            return ", ".join(map(str, value))
        case float():
            return f"{value:.15g}"
        case _:
            return str(value)
