"""Every mistake of the first hour gets one clear sentence with a remedy, and the right exit code."""

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
