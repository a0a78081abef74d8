"""A shell that stays open, as a reader's terminal does: variables and the folder last from one command to the next."""

import os
import re
import selectors
import shlex
import signal
import subprocess
import time
from pathlib import Path

PATIENCE_SECONDS = 60.0
END = "\x1eend of output"
# The tests ask for nothing but Python, and a machine may have no curl.
CURL = """command -v curl > /dev/null ||
curl() { python -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[-1], timeout=30).read().decode())' "$@"; }"""


class Terminal:
    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self.shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._type(CURL)

    def run(self, typed: str) -> tuple[str, int]:
        """What the command printed, on stdout and stderr, and its exit code, which the next command finds in `$?`."""
        self._type(
            f"eval {shlex.quote(typed)} </dev/null; __code=$?; printf '%s %d\\n' '{END}' $__code; (exit $__code)"
        )
        read = self._read_until(re.compile(rf"{END} (\d+)\n".encode()), typed)
        output, _, code = read.decode().rpartition(END)
        return output, int(code)

    def variables(self) -> dict[str, str]:
        """Those that commands of the page have exported."""
        output, _ = self.run("env -0")
        return dict(pair.split("=", 1) for pair in output.split("\0") if "=" in pair)

    def folder(self) -> str:
        return self.run("pwd")[0].strip()

    def close(self) -> None:
        assert self.shell.stdin is not None and self.shell.stdout is not None
        self.shell.stdin.close()
        os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.stdout.close()
        self.shell.wait()

    def _type(self, line: str) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.write(line.encode() + b"\n")
        self.shell.stdin.flush()

    def _read_until(self, end: re.Pattern[bytes], typed: str) -> bytes:
        assert self.shell.stdout is not None
        read, deadline = b"", time.monotonic() + PATIENCE_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self.shell.stdout, selectors.EVENT_READ)
            while not end.search(read):
                ready = selector.select(deadline - time.monotonic())
                assert ready, f"`{typed}` has not ended after {PATIENCE_SECONDS:g} s:\n{read.decode()}"
                more = os.read(self.shell.stdout.fileno(), 65536)
                assert more, f"`{typed}` ended the shell:\n{read.decode()}"
                read += more
        return read


class Background:
    """A command that goes on while the page does: a worker, a server. Ctrl-C stops it."""

    def __init__(self, typed: str, terminal: Terminal, log: Path) -> None:
        self.typed, self.log = typed, log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                ["bash", "-c", f"exec {typed}"],
                cwd=terminal.folder(),
                env=terminal.variables(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def printed(self) -> str:
        return self.log.read_text()

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def stop(self) -> None:
        if self.has_ended:
            return
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE_SECONDS / 2)
        finally:
            if not self.has_ended:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
