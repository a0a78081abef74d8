"""Help reads alike everywhere: a verb first, a full stop at the end, and no line wider than 80 columns."""

import re
from collections.abc import Iterator

import click
import pytest

from stem.cli.main import cli

VERBS = re.compile(
    "Add|Ask|Cancel|Change|Check|Create|Disable|Drop|Enable|Enqueue|Draw|Feed|Go|Group|Import|Inspect|Let|Limit|List|Move|Never|"
    "Pause|Print|Queue|Remove|Replace|Replay|Report|"
    "Resume|Revoke|Run|Send|Set|Show|Start|Stop|Write"
)


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            below = click.Context(found, info_name=name, parent=context, terminal_width=80, max_content_width=80)
            yield below.command_path, found, below
            yield from commands(found, below)


COMMANDS = list(commands(cli, click.Context(cli, info_name="stem", **cli.context_settings)))
NAMES = [name for name, _, _ in COMMANDS]


@pytest.mark.parametrize(("name", "command", "context"), COMMANDS, ids=NAMES)
def test_help_begins_with_a_verb_and_fits_80_columns(name: str, command: click.Command, context: click.Context) -> None:
    first = (command.help or "").partition("\n")[0]
    assert VERBS.match(first) and first.endswith(".") and len(first) <= 80, f"{name}: {first}"
    wide = [line for line in command.get_help(context).splitlines() if len(line) > 80]
    assert wide == []


@pytest.mark.parametrize(("name", "command", "context"), COMMANDS, ids=NAMES)
def test_every_option_says_what_it_does(name: str, command: click.Command, context: click.Context) -> None:
    helps = [option.help for option in command.params if isinstance(option, click.Option) and not option.hidden]
    assert [text for text in helps if text and (text[0].islower() or not text.rstrip("]").strip())] == [], name
