"""Every example of README and docs runs as it is printed, and prints what the page shows."""

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from docs.blocks import PAGES, ROOT, Block, blocks_of, commands_of
from docs.page import Page, pattern
from stem.cli.main import cli
from support.servers import RedisServer

LANGUAGES = {"python", "console", "text", "yaml", "json", "ini", "toml", "dockerfile", "diff", "sql", "html", "promql"}
# Why a block may be left out. A new reason is a decision, so it is made here.
REASONS = {
    "asks for a password",
    "installs packages",
    "needs a Kafka server",
    "needs Dramatiq and a Redis server",
    "needs RQ and a Redis server",
    "needs a Postgres server of yours",
    "needs a cluster",
    "needs Docker",
    "needs Spark",
    "needs root",
    "needs systemd",
    "needs workers of yours",
    "a screen that stays open",
    "the whole test suite",
}
MARKS = re.compile(r"not run: .*|background|stop")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def is_runnable(block: Block) -> bool:
    return block.language in ("python", "console") and not block.is_skipped


# Those of the pipeline need Spark: tests/pipeline/docs runs them.
WITHOUT_SPARK = [page for page in PAGES if not page.name.startswith("pipeline")]
RUNNABLE = [page for page in WITHOUT_SPARK if any(map(is_runnable, blocks_of(page.read_text())))]
every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@pytest.fixture
def start_redis() -> Iterator[Callable[[], int]]:
    started: list[RedisServer] = []

    def start() -> int:
        started.append(RedisServer())
        return started[-1].port

    yield start
    for server in started:
        server.close()


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_the_examples_of_a_page_run_as_printed(page: Path, tmp_path: Path, start_redis: Callable[[], int]) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    with Page(page, folder, start_redis) as reader:
        reader.follow()


@every_page
def test_a_block_says_what_it_is_so_that_no_example_escapes(page: Path) -> None:
    for block in blocks_of(page.read_text()):
        where = f"{page.name}, line {block.line}"
        assert block.language in LANGUAGES | {"stop"}, f"{where}: ```{block.language} is none of {sorted(LANGUAGES)}"
        if block.language == "text":
            assert not re.search(r"^(\$ |>>> |stem [a-z]+|pip install|make [a-z])", block.text, re.MULTILINE), (
                f"{where}: a command belongs into a console block"
            )
        if block.language in ("python", "console") and block.mark:
            assert MARKS.fullmatch(block.mark), f"{where}: {block.mark!r} is no mark"
        if block.is_skipped:
            assert block.mark.removeprefix("not run: ") in REASONS, f"{where}: {block.mark!r} is no accepted reason"


@every_page
def test_a_file_that_a_page_writes_is_used_by_it(page: Path) -> None:
    blocks = list(blocks_of(page.read_text()))
    for place, block in enumerate(blocks):
        if block.language != "python" or not block.file or block.is_skipped:
            continue
        name = Path(block.file["name"]).stem
        later = [each.text for each in blocks[place + 1 :] if not each.is_skipped]
        assert any(name in text for text in later), f"{page.name}, line {block.line}: nothing uses {block.file['name']}"


@every_page
def test_a_command_that_is_not_run_is_at_least_one_that_exists(page: Path) -> None:
    """Parsed as the command line would be."""
    skipped = [block for block in blocks_of(page.read_text()) if block.is_skipped and block.language == "console"]
    for typed in (command.typed for block in skipped for command in commands_of(block)):
        if typed.startswith("stem "):
            words = shlex.split(typed, comments=True)[1:]
            context = click.Context(cli, info_name="stem", **cli.context_settings)
            command: click.Command = cli
            while isinstance(command, click.Group) and not words[0].startswith("-"):
                found = command.get_command(context, words.pop(0))
                assert found is not None, f"{page.name}: {typed}"
                command = found
            command.make_context("stem", words, parent=context)


@pytest.mark.parametrize(
    ("shown", "printed", "matches"),
    [
        ("", "", True),
        ("", "a\n", False),
        ("a\n", "a\n", True),
        ("a\n", "a\nb\n", False),
        ("id=… b\n", "id=017f b\n", True),
        ("id=… b\n", "id=017f c\n", False),
        ("a\n…\nc\n", "a\nc\n", True),
        ("a\n…\nc\n", "a\nb\nb\nc\n", True),
        ("a\n…\n", "a\nb\n", True),
        ("a\n…\n", "b\n", False),
    ],
)
def test_an_ellipsis_stands_for_what_varies_and_nothing_else_does(shown: str, printed: str, matches: bool) -> None:
    assert bool(pattern(shown).fullmatch(printed)) is matches
