"""Read the fenced blocks of a page, with what the page says about each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*)(?P<rest>.*)$")
MARK = re.compile(r"^ *<!-- (?P<text>.*?) -->$")
FILE = re.compile(r"^(?:#|--|//) (?P<name>[\w-][\w./-]*\.\w+|Dockerfile|Makefile)(?P<more>, continued)?$")
STOP = "stop"


@dataclass(frozen=True)
class Block:
    """One fence. `mark` is the comment directly above it; a `stop` between fences is a block of its own."""

    language: str
    text: str
    line: int
    mark: str = ""
    follows: bool = False  # nothing but blank lines lie between it and the fence before

    @property
    def file(self) -> re.Match[str] | None:
        return FILE.match(self.text.partition("\n")[0])

    @property
    def is_skipped(self) -> bool:
        return self.mark.startswith("not run: ")


@dataclass(frozen=True)
class Command:
    """What is typed after a prompt, and the lines that it prints."""

    typed: str
    prints: str


def blocks_of(text: str) -> Iterator[Block]:
    lines = iter(enumerate(text.splitlines(), start=1))
    mark, follows = "", False
    for number, line in lines:
        if fence := FENCE.match(line):
            indent, body = len(fence["indent"]), []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                body.append(inner[indent:])
            yield Block(fence["language"], "".join(f"{each}\n" for each in body), number, mark, follows)
            mark, follows = "", True
        elif found := MARK.match(line):
            mark = found["text"]
            if mark == STOP:
                yield Block(STOP, "", number)
        elif line.strip():
            mark, follows = "", False


def commands_of(block: Block) -> list[Command]:
    """Lines that begin with `$ ` are typed; a line that ends in a backslash, and a here-document, go on in the next."""
    found: list[Command] = []
    lines = iter(block.text.splitlines())
    for line in lines:
        if not line.startswith("$ "):
            assert found, f"line {block.line}: a console block begins with `$ `"
            found[-1] = Command(found[-1].typed, f"{found[-1].prints}{line}\n")
            continue
        typed = line[2:]
        here = re.search(r"<<-? *['\"]?(\w+)", typed)
        while typed.endswith("\\") or (here and typed.rpartition("\n")[2] != here[1]):
            typed += "\n" + next(lines)
        found.append(Command(typed, ""))
    return found
