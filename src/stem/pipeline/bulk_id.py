"""The id that an item of a bulk has as a task: the same for the same bulk and item, whoever asks."""

import hashlib

from stem.core.envelope import check_id
from stem.core.errors import InvalidTask


def task_id(bulk: str, item: str) -> str:
    """Readable where the item's name may stand in an id."""
    try:
        return check_id(f"{bulk}:{item}")
    except InvalidTask:
        return f"{bulk}:{hashlib.sha256(item.encode(errors='surrogatepass')).hexdigest()[:32]}"


def worker_name(bulk: str) -> str:
    """Who ran an item, in its record and events."""
    return f"bulk-{bulk}"
