"""Do what a page says, from top to bottom, in a folder of its own, and compare what is printed with what the page shows."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from docs.blocks import STOP, Block, Command, blocks_of, commands_of
from docs.terminal import Background, Terminal
from support.servers import free_port
from support.until import until

BIN = Path(sys.executable).parent
NOTEBOOK = Path(__file__).parent / "notebook.py"
PORT = re.compile(r"(?P<host>\b127\.0\.0\.1:|\blocalhost:|--port )(?P<port>\d{4,5})\b")
FAILS = re.compile(r"^(error|Usage|.*Error): ", re.MULTILINE)
BACKGROUND = "background"
# What only looks, and may have to look again until something has happened.
READS = re.compile(
    r"curl |stem (task (list|show|logs)|worker (ping|inspect|stats|status|queue-status)|queue (list|peek)|dlq (list|show)"
    r"|observe|health|schedule (list|show)|canvas (list|show))\b(?!.*--follow)"
)
LOOK_AGAIN_SECONDS = 10.0


class Page:
    """A reader with two windows: a Python session, and a terminal with commands in the background."""

    def __init__(self, path: Path, folder: Path, start_redis: Callable[[], int]) -> None:
        self.folder = folder
        self.ports: dict[str, int] = {}
        self.text = self._on_free_ports(path.read_text(), start_redis)
        self.name = "page_" + re.sub(r"\W", "_", path.stem)  # never that of a library
        self.where = path.name
        self.changed: list[str] = []
        self.background: list[Background] = []
        variables = reader_environment(folder)
        self.terminal = Terminal(folder, variables)
        self.errors = (folder.parent / "python.log").open("w+")
        self.notebook = subprocess.Popen(
            [sys.executable, str(NOTEBOOK), self.name],
            cwd=folder,
            env=variables,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stop_background()
        finally:
            self.notebook.kill()
            self.notebook.communicate()
            self.errors.close()
            self.terminal.close()

    def follow(self) -> None:
        blocks = list(blocks_of(self.text))
        for block, after in pairwise([*blocks, None]):
            assert block is not None
            if block.is_skipped:
                continue
            if block.language == STOP:
                self._stop_background()
            elif block.file:
                self._write(block)
            elif block.language == "python":
                self._run_python(block, after if after and after.follows and after.language == "text" else None)
            elif block.language == "console" and block.mark == BACKGROUND:
                self._start(block)
            elif block.language == "console":
                for command in commands_of(block):
                    self._run(command, block)

    def _write(self, block: Block) -> None:
        assert block.file is not None
        path = self.folder / block.file["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() + "\n\n" if block.file["more"] else ""
        path.write_text(before + block.text)
        self.changed.append(block.file["name"].removesuffix(".py").replace("/", "."))

    def _run_python(self, block: Block, shown: Block | None) -> None:
        assert self.notebook.stdin is not None and self.notebook.stdout is not None
        code = "\n" * block.line + block.text  # so that a traceback has the line of the page
        print(
            json.dumps({"code": code, "where": self.where, "changed": self.changed}),
            file=self.notebook.stdin,
            flush=True,
        )
        self.changed.clear()
        answer = json.loads(self.notebook.stdout.readline() or '{"printed": "the session has ended", "trace": ""}')
        expected = shown.text if shown else ""
        self._compare(expected, answer["printed"], f"line {block.line}: this Python\n{answer['trace']}")

    def _run(self, command: Command, block: Block) -> None:
        printed, code = self.terminal.run(command.typed)
        until_shown = time.monotonic() + LOOK_AGAIN_SECONDS
        while (
            READS.match(command.typed) and not self._matches(command.prints, printed) and time.monotonic() < until_shown
        ):
            printed, code = self.terminal.run(command.typed)  # as a reader does who was too quick
        self._compare(command.prints, printed, f"line {block.line}: $ {command.typed}")
        may_fail = FAILS.search(command.prints) or "echo $?" in block.text
        assert code == 0 or may_fail, f"{self.where}, line {block.line}: $ {command.typed} exits with {code}"

    def _start(self, block: Block) -> None:
        for command in commands_of(block):
            assert command.prints, (
                f"line {block.line}: a command in the background shows by what it prints that it is up"
            )
            log = self.folder.parent / f"background-{len(self.background)}.log"
            started = Background(command.typed, self.terminal, log)
            self.background.append(started)
            wanted = pattern(self._as_shown(command.prints))
            until(lambda: wanted.search(normal(self._as_shown(started.printed))) or started.has_ended, seconds=30)  # noqa: B023
            printed = self._as_shown(started.printed)
            assert wanted.search(normal(printed)), (
                f"{self.where}, line {block.line}: $ {command.typed} printed\n{printed}"
            )

    def _stop_background(self) -> None:
        while self.background:
            self.background.pop().stop()

    def _compare(self, shown: str, printed: str, what: str) -> None:
        assert self._matches(shown, printed), (
            f"{self.where}, {what}\nprinted\n{self._as_shown(printed)}\nand the page shows\n{shown}"
        )

    def _matches(self, shown: str, printed: str) -> bool:
        return pattern(self._as_shown(shown)).fullmatch(normal(self._as_shown(printed))) is not None

    def _on_free_ports(self, text: str, start_redis: Callable[[], int]) -> str:
        """The page with ports of this machine that are free. Port 6379 is a Redis server's, which is started for it."""
        for _, port in sorted({found.groups() for found in PORT.finditer(text)}):
            if port not in self.ports:
                self.ports[port] = start_redis() if port == "6379" else free_port()
        return PORT.sub(lambda found: f"{found['host']}{self.ports[found['port']]}", text)

    def _as_shown(self, printed: str) -> str:
        real = {str(port): shown for shown, port in self.ports.items()}
        return PORT.sub(lambda found: f"{found['host']}{real.get(found['port'], found['port'])}", printed)


def pattern(shown: str) -> re.Pattern[str]:
    """`…` stands for whatever a line has there, and on a line of its own for any number of lines."""
    lines = normal(shown).splitlines()
    parts = [r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in lines]
    return re.compile("".join(parts))


def normal(text: str) -> str:
    """The columns of a table are as wide as what is in them: ages, ports, names of machines."""
    return "".join(re.sub(r"(?<=\S) {2,}", "  ", line.rstrip()) + "\n" for line in text.rstrip().splitlines())


def reader_environment(folder: Path) -> dict[str, str]:
    strange = ("STEM_", "PYTHON", "PYTEST", "OTEL_", "DJANGO_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "VIRTUAL_ENV"):
        kept.pop(name, None)
    return kept | {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder.parent),
        "PYTHONUNBUFFERED": "1",
    }
