"""Every common mistake gets one clear sentence with a remedy, and the right exit code."""

import pytest

from acceptance.mistakes import code, commands
from acceptance.mistakes.mistake import Mistake
from acceptance.shell import Shell


@pytest.mark.parametrize("mistake", [*commands.MISTAKES, *code.MISTAKES], ids=lambda mistake: mistake.name)
def test_a_mistake_gets_a_sentence_and_an_exit_code(shell: Shell, mistake: Mistake) -> None:
    for name, text in mistake.files.items():
        (shell.directory / name).write_text(text)
    done = shell.at(**mistake.variables).paste(mistake.run)
    output = done.stdout + done.stderr
    assert mistake.says in output, output
    assert done.returncode == mistake.exit_code, output
    assert "Traceback" not in output


def test_the_table_is_as_long_as_the_list_of_mistakes_was() -> None:
    assert len(commands.MISTAKES) >= 61
    assert len(commands.MISTAKES) + len(code.MISTAKES) >= 96


@pytest.mark.parametrize(
    "run",
    [
        "task list",
        "task show 7",
        "queue list",
        "queue peek default",
        "dlq list",
        "health",
        "worker ping",
        "worker status",
    ],
)
def test_whoever_looks_for_a_store_creates_none(shell: Shell, run: str) -> None:
    assert str(shell.directory / "stem.db") in shell.refusal(*run.split(), code=1)
    assert shell.files == []
