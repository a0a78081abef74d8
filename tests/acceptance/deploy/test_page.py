"""`docs/operations/deploy.md` prints what `stem deploy init` really prints."""

import re
from pathlib import Path

from acceptance.shell import Shell

PAGE = Path(__file__).parents[3] / "docs/operations/deploy.md"


def test_every_command_of_the_page_prints_what_the_page_says(shell: Shell) -> None:
    text = PAGE.read_text()
    for name, code in re.findall(r"```python\n# (\S+)\n(.*?)```", text, re.DOTALL):
        (shell.directory / name).write_text(code)
    blocks = re.findall(r"(?<!-->\n)```console\n\$ stem (.+?)\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 4
    for command, printed in blocks:
        assert shell.out(*command.split()) == printed.rstrip("\n")


def test_the_page_tells_of_every_flag(shell: Shell) -> None:
    flags = set(re.findall(r"(--[a-z]+)", shell.out("deploy", "init", "--help").partition("Options:")[2]))
    listed = set(re.findall(r"^\| `(--[a-z]+)`", PAGE.read_text(), re.MULTILINE))
    assert flags - {"--traceback", "--help"} == listed
