"""The options that commands of the pipeline share."""

import os
from collections.abc import Callable
from typing import Any

import click

from stem.pipeline import storage


def _to_environment(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> None:
    """Where everything that reaches an object store looks."""
    for pair in given:
        name, is_pair, value = pair.partition("=")
        if not (is_pair and storage.OPTION.fullmatch(name)):
            raise click.BadParameter("use NAME=VALUE, with a name like AWS_REGION, GOOGLE_… or AZURE_…")
        os.environ[name] = value


def lake(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where the lake lies, and what reaching it needs."""
    for option in (
        click.option(
            "--lake-option",
            multiple=True,
            metavar="NAME=VALUE",
            expose_value=False,
            callback=_to_environment,
            help="For a lake in a bucket, in place of an environment variable.",
        ),
        click.option(
            "--lake",
            metavar="PATH|URL",
            help="Where the lake lies: a folder, s3://, gs://, abfss://.  [env: STEM_LAKE]",
        ),
    ):
        function = option(function)
    return function


def spark(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where Spark runs."""
    for option in (
        click.option("--remote", metavar="URL", help="A Spark Connect server.  [env: STEM_SPARK_REMOTE]"),
        click.option("--master", metavar="URL", help="A Spark master, like local[2].  [env: STEM_SPARK_MASTER]"),
    ):
        function = option(function)
    return function
