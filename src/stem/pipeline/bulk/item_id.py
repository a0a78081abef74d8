"""Derive the task id of an item from its bulk and its name."""

import hashlib

from stem.core.envelope import check_id
from stem.core.errors import InvalidTask


def task_id(bulk: str, item: str) -> str:
    """Readable if the item's name is valid in an id; else a hash of it."""
    try:
        return check_id(f"{bulk}:{item}")
    except InvalidTask:
        return f"{bulk}:{hashlib.sha256(item.encode(errors='surrogatepass')).hexdigest()[:32]}"


def worker_name(bulk: str) -> str:
    """The worker of an item, in its record and events."""
    return f"bulk-{bulk}"
