"""Report an invalid cursor as a usage error."""

from collections.abc import Iterator
from contextlib import contextmanager

from stem.core.errors import UsageError


@contextmanager
def at_cursor(cursor: str | None) -> Iterator[None]:
    """Raise UsageError if the enclosed listing cannot read its cursor."""
    try:
        yield
    except (ValueError, OverflowError) as error:
        if cursor is None:
            raise
        raise UsageError(
            f"--cursor {cursor!r} is none that this listing printed; leave it out to begin anew."
        ) from error
