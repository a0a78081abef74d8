"""Find where a page of a listing begins: newest first, below the number that the cursor holds."""

from stem.core.errors import UsageError

TOP = 2**63 - 1  # above any number


def cursor_start(cursor: str | None) -> int:
    """Raises UsageError for a cursor that no page has given."""
    if cursor is None:
        return TOP
    if not cursor.isdecimal() or len(cursor) > 19 or int(cursor) > TOP:
        raise UsageError(f"{cursor!r} is not a cursor of this store; use one that a page gave, or None.")
    return int(cursor)
