"""Where commands are typed, and what comes back."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
STEM = str(BIN / "stem")
PATIENCE_SECONDS = 30.0  # no command may hang, whatever it meets, and however busy the machine is
TRIES = 10
# As a command does, it imports for the most part; and what it costs on a machine where a ping costs 0.15 to 0.17 s.
YARDSTICK = (
    sys.executable,
    "-Ic",
    "import asyncio, decimal, email.parser, http.server, json, ssl, unittest, xml.dom.minidom; print('done')",
)
USUAL_SECONDS = 0.13


@dataclass(frozen=True)
class Shell:
    """Where commands are typed: a folder, and environment variables."""

    directory: Path
    variables: dict[str, str]

    def run(self, *words: str, stdin: str = "", **how: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [STEM, *words],
            cwd=self.directory,
            env=self.variables,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            **how,
        )

    def paste(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            line,
            shell=True,
            cwd=self.directory,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )

    def out(self, *words: str, stdin: str = "") -> str:
        """What a command that succeeds prints."""
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done
        assert done.stderr == ""
        return done.stdout.rstrip("\n")

    def json(self, *words: str) -> Any:
        return json.loads(self.out(*words, "--json"))

    def refusal(self, *words: str, code: int, stdin: str = "", **how: Any) -> str:
        """The one sentence that a command prints instead of doing anything."""
        done = self.run(*words, stdin=stdin, **how)
        assert done.returncode == code, done
        assert done.stdout == ""
        # On a busy machine an import may take so long that the worker says so.
        (line,) = [line for line in done.stderr.splitlines() if " app.importing " not in line]
        assert line.startswith("error: "), done.stderr
        return line.removeprefix("error: ")

    def cpu_seconds(self, *words: str, under: float) -> float:
        """What a command that succeeds costs: the least of a few tries, since a machine that does other things is slow. On one
        that is slower than usual at the moment, what it would cost on the usual one."""
        spent: list[float] = []
        while len(spent) < TRIES and min(spent, default=under) >= under:
            seconds = self._cpu_seconds_once(STEM, *words)
            if seconds >= under:
                seconds /= max(1.0, self._cpu_seconds_once(*YARDSTICK) / USUAL_SECONDS)
            spent.append(seconds)
        return min(spent)

    def _cpu_seconds_once(self, *command: str) -> float:
        variables = {name: value for name, value in self.variables.items() if name != "PYTHONDONTWRITEBYTECODE"}
        process = subprocess.Popen(command, cwd=self.directory, env=variables, stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # else it would be waited for once more
        assert process.returncode == 0
        return used.ru_utime + used.ru_stime

    def at(self, **variables: str) -> "Shell":
        return replace(self, variables=self.variables | variables)

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())
