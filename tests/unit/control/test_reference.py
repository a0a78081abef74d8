"""docs/control-commands.md lists every control command as it is registered. Run this file as a program to write it anew."""

import inspect
import re
from pathlib import Path
from textwrap import fill

import click

from stem.cli.worker.control import control_command
from stem.control.registry import ControlCommand, all_commands

PAGE = Path(__file__).parents[3] / "docs" / "control-commands.md"
HEAD = """# Control commands

Each command is available as `stem worker NAME` and `stem worker control NAME`, and from Python as
`app.control.ask("NAME", {…})` with the payload below. A revoke, a pause and a resume are stored
before workers are told; from Python use `app.control.revoke`, `pause` and `resume`, which do the
same.

Besides its own flags, every command takes `--worker` (repeatable; default: all workers),
`--timeout`, `--namespace`, `--broker-url`, `--results-url`, `--app` and `--json`.

Exit codes: 0 if every worker obeyed, 1 if no worker (or task, queue, isolate) of that name is
known, 64 if a value is invalid, 70 if a worker did not answer or refused.

This page is generated from the commands in `src/stem/control/commands`.

| command | what it does | changes something |
|---|---|---|
"""


def page() -> str:
    entries = sorted(all_commands(), key=lambda entry: _title(entry))
    rows = "".join(
        f"| [`{_title(entry)}`](#{_title(entry)}) | {entry.summary} | {'yes' if entry.changes else 'no'} |\n"
        for entry in entries
    )
    return HEAD + rows + "".join(map(section, entries))


def section(entry: ControlCommand) -> str:
    command = control_command(entry.cli_names[0])
    assert command is not None
    text = inspect.cleandoc(entry.help).replace("\b\n", "")
    prose, _, example = text.partition("Example: ")
    prose = re.sub(r"^(warm|soft|hard)  ", r"* \1 ", prose, flags=re.MULTILINE).strip()
    prose = "\n\n".join(map(_wrapped, prose.split("\n\n")))
    lines = [f"\n## {_title(entry)}\n", prose, ""]
    if names := [name for name in (entry.name, *entry.aliases) if name != _title(entry)]:
        lines += [f"Other names: {', '.join(f'`{name}`' for name in names)}.", ""]
    typed = (f"$ {line.strip()}" for line in example.splitlines())
    lines += ["<!-- not run: needs workers of yours -->", "```console", *typed, "```", ""]
    if flags := _flags(command):
        lines += ["| flag | meaning |", "|---|---|", *flags, ""]
    # A payload without a type of its own takes the keys that its flags stand for.
    fields = (entry.payload if hasattr(entry.payload, "__struct_fields__") else entry.options).__struct_encode_fields__
    payload = ", ".join(f"`{name}`" for name in fields) or "none"
    return "\n".join([*lines, _wrapped(f"Payload: {payload}.")]) + "\n"


def _wrapped(paragraph: str) -> str:
    return paragraph if paragraph.startswith("* ") else fill(paragraph, 100, break_on_hyphens=False)


def _title(entry: ControlCommand) -> str:
    """The name that operators type most: `inspect`, not `list-active`."""
    return "inspect" if "inspect" in entry.cli_names else entry.cli_names[0]


def _flags(command: click.Command) -> list[str]:
    own = [each for each in command.params if isinstance(each, click.Option) and each.name not in SHARED]
    return [
        f"| {', '.join(f'`{flag}`' for flag in (*each.opts, *each.secondary_opts))} | {each.help} |" for each in own
    ]


PING = control_command("ping")
SHARED = {each.name for each in PING.params} if PING is not None else set()


def test_the_page_lists_every_command_as_it_is_registered() -> None:
    assert PAGE.read_text() == page(), "write it anew: .venv/bin/python tests/unit/control/test_reference.py"


def test_every_command_has_a_sentence_and_an_example() -> None:
    for entry in all_commands():
        assert entry.summary[:1].isupper() and entry.summary.endswith("."), entry.name
        assert "\b\n    Example: stem " in entry.help, entry.name


if __name__ == "__main__":
    PAGE.write_text(page())
