"""`stem pipeline enqueue` before somebody's eyes: a bar that moves on a terminal, and is gone when it is done."""

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

ROWS = 4000
CONF = """\
pipeline:
  master: local[2]
  conf:
    spark.sql.files.openCostInBytes: "0"
    spark.sql.files.maxPartitionBytes: "3000"
"""
_CODE = re.compile(r"\x1b\[(\??[\d;]*)([A-Za-z])")


def test_a_terminal_sees_the_bar_move_and_keeps_one_clean_line(tmp_path: Path) -> None:
    (tmp_path / "stem.yaml").write_text(CONF)
    (tmp_path / "users.csv").write_text("to,copies\n" + "".join(f"user-{n},{n}\n" for n in range(ROWS)))
    words = ["pipeline", "enqueue", "--task", "mail.send", "--from", "users.csv", "--job", "monday"]
    written = _on_a_terminal([sys.executable, "-m", "stem", *words, "--broker-url", "sqlite:///stem.db"], tmp_path)
    steps = [(int(done), int(all)) for done, all in re.findall(r"(\d+) of (\d+) partitions", written)]
    assert steps == sorted(steps) and len({*steps}) > 2 and steps[-1][1] > 10, written
    assert screen(written) == ["4,000 tasks enqueued. Job monday"]
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")  # the cursor is there again


def _on_a_terminal(command: list[str], place: Path) -> str:
    """All that it wrote there, until it ended well."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    with subprocess.Popen(command, cwd=place, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        data = b""
        with suppress(OSError):  # nobody holds the other end any more
            while piece := os.read(ours, 65536):
                data += piece
        os.close(ours)
        assert process.wait(60) == 0, data.decode(errors="replace")
    return data.decode()


def screen(written: str) -> list[str]:
    """What is left to be read, as a terminal keeps it; AssertionError at a code that none of this knows."""
    lines, row, column, at = [""], 0, 0, 0
    while at < len(written):
        if code := _CODE.match(written, at):
            at = code.end()
            match code[2]:
                case "A":
                    row -= int(code[1] or 1)
                case "K":
                    assert code[1] == "2"
                    lines[row] = ""
                case "m" | "h" | "l":
                    pass
                case _:
                    raise AssertionError(f"an unknown code: {code[0]!r}")
            continue
        character, at = written[at], at + 1
        if character == "\r":
            column = 0
        elif character == "\n":
            row += 1
            lines += [""] * (row - len(lines) + 1)
        else:
            assert character.isprintable(), repr(character)
            lines[row] = lines[row][:column].ljust(column) + character + lines[row][column + 1 :]
            column += 1
    while lines and not lines[-1].strip():
        lines.pop()
    return [line.rstrip() for line in lines]
