"""`manage.py stem …`: the `stem` command with the project's app and settings."""

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand

from stem.cli import main
from stem.cli.support import failure
from stem.core.errors import ConfigError
from stem.integrations.django.application import PATH
from stem.integrations.django.project_settings import read_project_settings


class StemCommand(BaseCommand):  # type: ignore[misc]
    help = "Run a command of Stem's with this project's app, such as: manage.py stem worker start"

    def run_from_argv(self, argv: list[str]) -> None:
        """Hands everything behind `stem` over as it is: Stem has options of its own, and some that Django would take."""
        sys.exit(run_command(argv[2:]))

    def add_arguments(self, parser: Any) -> None:
        parser.add_argument("arguments", nargs="*")

    def handle(self, *arguments: str, **options: Any) -> None:
        """For `call_command("stem", "task", "list")`."""
        exit_code = run_command([*arguments, *options["arguments"]])
        if exit_code:
            sys.exit(exit_code)


Command = StemCommand  # the name that Django looks for


def run_command(arguments: list[str]) -> int:
    try:
        os.environ.update({**read_project_settings().of_workers, "STEM_APP": PATH})
    except ConfigError as error:
        return failure.report(error, arguments)
    return main.run(arguments)
