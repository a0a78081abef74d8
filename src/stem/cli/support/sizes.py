"""Read sizes (`512MB`) and pairs of bounds (`2,10`)."""

import click

from stem.core.settings.kinds import size


class SizeType(click.ParamType[int]):
    """Bytes."""

    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if not isinstance(value, str):
            return value
        found = size(value)
        if not found:
            self.fail(f"{value!r} is not a size; write 512MB, 2GiB or a number of bytes", param, ctx)
        return found


class BoundsType(click.ParamType[tuple[int, int]]):
    """The least and the most."""

    name = "min,max"

    def convert(
        self, value: str | tuple[int, int], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        try:
            least, most = (int(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not two whole numbers; write it like 2,10", param, ctx)
        return least, most


SIZE = SizeType()
BOUNDS = BoundsType()
