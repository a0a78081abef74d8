"""The options that commands of the pipeline share."""

import os
from collections.abc import Callable
from typing import Any

import click

from stem.cli.support import times
from stem.pipeline.lake import storage


def _to_environment(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> None:
    """Put storage options into the environment, where all libraries look."""
    for pair in given:
        name, is_pair, value = pair.partition("=")
        if not (is_pair and storage.OPTION.fullmatch(name)):
            raise click.BadParameter("use NAME=VALUE, with a name like AWS_REGION, GOOGLE_… or AZURE_…")
        os.environ[name] = value


def lake(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options for the location of the lake."""
    for option in (
        click.option(
            "--lake-option",
            multiple=True,
            metavar="NAME=VALUE",
            expose_value=False,
            callback=_to_environment,
            help="Option of a lake in a bucket, instead of an environment variable.",
        ),
        click.option(
            "--lake",
            metavar="PATH|URL",
            help="Location of the lake: a folder, s3://, gs://, abfss://.  [env: STEM_LAKE]",
        ),
    ):
        function = option(function)
    return function


PY_FILES = "STEM_SPARK_PY_FILES"


def _py_files(_: click.Context, __: click.Parameter, given: str | None) -> None:
    if given is not None:
        os.environ[PY_FILES] = given


def spark(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options for where Spark runs."""
    for option in (
        click.option(
            "--py-files",
            metavar="FILES",
            expose_value=False,
            callback=_py_files,
            help="Your code for executors elsewhere: .py or .zip files, with commas.  [env: STEM_SPARK_PY_FILES]",
        ),
        click.option("--remote", metavar="URL", help="A Spark Connect server.  [env: STEM_SPARK_REMOTE]"),
        click.option("--master", metavar="URL", help="A Spark master, like local[2].  [env: STEM_SPARK_MASTER]"),
    ):
        function = option(function)
    return function


class KeepType(click.ParamType[float]):
    """A duration that must have a unit, because it deletes data."""

    name = "duration"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if not isinstance(value, str):
            return value
        seconds = times.duration(value)
        if seconds is None:
            self.fail(f"{value!r} is not a duration; write 90d, or 48h", param, ctx)
        if value.strip()[-1].isdecimal():
            self.fail(
                f"{value!r} has no unit, and what is older is dropped; write {value.strip()}d for days", param, ctx
            )
        return seconds
