"""A group whose commands are imported when they are asked for, so that each costs no more than its own."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class Group(click.Group):
    """Says what was probably meant by a command that it does not have."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from stem.core.option import near

            ctx.fail(f"{error.message.rstrip('.')}{near(args[0], self.spellings(ctx))}")

    def spellings(self, ctx: click.Context) -> dict[str, str]:
        """What somebody may type, and the words that he should have typed."""
        return {name: f"'{ctx.command_path} {name}'" for name in self.list_commands(ctx)}


class Later(Group):
    """`homes`: the module of each command, which is there an attribute of the command's name, or of the one after a
    colon."""

    def __init__(self, *given: Any, homes: Mapping[str, str], **more: Any) -> None:
        super().__init__(*given, **more)
        self._homes = homes

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._homes})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._homes and cmd_name not in self.commands:
            module, _, attribute = self._homes[cmd_name].partition(":")
            self.add_command(getattr(import_module(module), attribute or cmd_name.replace("-", "_")), cmd_name)
        return super().get_command(ctx, cmd_name)
