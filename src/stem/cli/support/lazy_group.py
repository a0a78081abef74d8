"""Import a command only when it is called, so that each pays for its own imports alone."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class SuggestingGroup(click.Group):
    """Suggests a command when it does not have the one that was typed."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from stem.core.settings.setting import did_you_mean

            ctx.fail(f"{error.message.rstrip('.')}{did_you_mean(args[0], self.spellings(ctx))}")

    def spellings(self, ctx: click.Context) -> dict[str, str]:
        """Map what somebody may type to the words to suggest."""
        return {name: f"'{ctx.command_path} {name}'" for name in self.list_commands(ctx)}


class LazyGroup(SuggestingGroup):
    """Imports its commands on demand. `homes` maps each command to its module; the attribute has the command's name, unless
    another follows after a colon."""

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
