"""docs/reference/cli.md has every command with its help. Run this file as a program to write the page anew."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from stem.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "cli.md"
SAME_AGAIN = "stem worker control"  # the commands of `stem worker` once more
HEAD = """# Command line

Every command as `--help` prints it. `python -m stem` is the same as `stem`.

* `--json` prints JSON for scripts; nothing is shortened in it.
* `--broker-url`, `--results-url`, `--namespace` and `--app` choose the store
  ([how](../guides/configuration.md#which-store-a-command-uses)).
* Durations are written `250ms`, `30s`, `5m`, `2h` or `1d`; moments in ISO format.
* Exit codes: 0 success, 1 not found, 3 a missed objective of `stem pipeline report` or
  something that `stem migrate` cannot move, 64 usage or configuration, 70 failure, 130 Ctrl-C.

This page is generated from the commands.
"""


def page() -> str:
    context = click.Context(cli, info_name="stem", terminal_width=78, **cli.context_settings)
    return HEAD + section(context) + "".join(map(section, below(context)))


def section(context: click.Context) -> str:
    level = "#" * min(4, 1 + len(context.command_path.split()))
    return f"\n{level} `{context.command_path}`\n\n```text\n{context.command.get_help(context).strip()}\n```\n"


def below(context: click.Context) -> Iterator[click.Context]:
    group = context.command
    if not isinstance(group, click.Group) or context.command_path == SAME_AGAIN:
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if not command.hidden:
            found = click.Context(command, info_name=name, parent=context, terminal_width=78)
            yield found
            yield from below(found)


def test_the_page_has_every_command_with_its_help() -> None:
    assert PAGE.read_text() == page(), f"write it anew: {sys.executable} {Path(__file__).relative_to(ROOT)}"


if __name__ == "__main__":
    PAGE.write_text(page())
