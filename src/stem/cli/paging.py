"""Cursors as people give them back: a made-up one is a mistake in the command, not in the store."""

from collections.abc import Iterator
from contextlib import contextmanager

from stem.core.errors import UsageError


@contextmanager
def at(cursor: str | None) -> Iterator[None]:
    """Around a listing."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        if cursor is None:
            raise
        raise UsageError(
            f"--cursor {cursor!r} is none that this listing printed; leave it out to begin anew."
        ) from error
