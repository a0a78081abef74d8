"""One declared payload gives the flags of a command and what is sent to workers."""

from typing import Annotated, Literal

import click
import msgspec
import pytest

from stem.cli.worker.control_parameters import parameters, read_options
from stem.control.registry import Option, Payload


class Where(Payload, frozen=True, omit_defaults=True):
    queue: Annotated[str | None, Option("-Q --queue", "Only this queue.", metavar="QUEUE")] = None


class Greet(Payload, frozen=True):
    name: Annotated[str, Option("NAME")]
    title: Annotated[str | None, Option("TITLE", word_for_none="none")]
    where: Where = Where()
    tone: Annotated[Literal["warm", "cold"], Option("--tone", "How to say it.")] = "warm"
    is_loud: Annotated[bool, Option("--loud", "So that all hear it.")] = False
    pause_seconds: Annotated[float | None, Option("--pause", "Before the next.")] = None
    pids: Annotated[list[Annotated[int, msgspec.Meta(ge=1)]] | None, Option("--pid", metavar="PID")] = None
    secret: str = "not on the command line"


def typed(*words: str) -> object:
    @click.command(params=parameters(Greet))
    def greet(**given: object) -> object:
        return msgspec.to_builtins(read_options(Greet, given))

    return greet.main(list(words), standalone_mode=False)


def test_command_line_options_become_the_payload() -> None:
    assert typed("ada", "Dr") == {
        "name": "ada", "title": "Dr", "where": {}, "tone": "warm", "isLoud": False, "pauseSeconds": None, "pids": None,
        "secret": "not on the command line",
    }  # fmt: skip
    given = typed("ada", "NONE", "-Q", "mail", "--tone", "COLD", "--loud", "--pause", "2m", "--pid", "7", "--pid", "8")
    assert given == {
        "name": "ada", "title": None, "where": {"queue": "mail"}, "tone": "cold", "isLoud": True, "pauseSeconds": 120.0,
        "pids": [7, 8], "secret": "not on the command line",
    }  # fmt: skip


@pytest.mark.parametrize(
    "words", [("ada",), ("ada", "Dr", "--tone", "rude"), ("ada", "Dr", "--pid", "0"), ("a", "b", "c")]
)
def test_an_impossible_command_is_refused_before_it_is_sent(words: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError):
        typed(*words)


class Named(msgspec.Struct, frozen=True, kw_only=True):
    ids: Annotated[tuple[str, ...], Option("ID --task", metavar="ID", missing="Name at least one task")]


def test_a_value_is_given_with_a_flag_or_without_one_and_counts_once() -> None:
    context = click.Context(click.Command("x"))
    with context:
        assert read_options(Named, {"ids_arguments": ("a", "b"), "ids": ("b", "c")}) == Named(ids=("a", "b", "c"))
        with pytest.raises(click.UsageError, match="Name at least one task"):
            read_options(Named, {"ids_arguments": (), "ids": ()})
