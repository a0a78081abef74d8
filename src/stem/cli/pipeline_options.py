"""The options that commands of the pipeline share."""

from collections.abc import Callable
from typing import Any

import click

lake = click.option("--lake", metavar="PATH", help="Where the lake lies.  [env: STEM_LAKE]")


def spark(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where Spark runs."""
    for option in (
        click.option("--remote", metavar="URL", help="A Spark Connect server.  [env: STEM_SPARK_REMOTE]"),
        click.option("--master", metavar="URL", help="A Spark master, like local[2].  [env: STEM_SPARK_MASTER]"),
    ):
        function = option(function)
    return function
