"""The scope of a pause: which workers do not claim from a queue. Stored with the revokes under an id of its own. Pure.

A scope is `*` (all workers) or names; with `*`, names after a minus are those that go on all the same.
"""

from collections.abc import Iterable

SignedScope = tuple[int, str]  # the stamp of a signed pause or resume (see core.revoke), and the scope that it left

ALL = "*"
_PREFIX = "stem:pause:"


def pause_id(queue: str) -> str:
    return f"{_PREFIX}{queue}"


def is_pause(task_id: str) -> bool:
    return task_id.startswith(_PREFIX)


def covers(scope: str, worker: str) -> bool:
    names = set(scope.split(",")) if scope else set()
    return f"-{worker}" not in names and (ALL in names or worker in names)


def widened(scope: str, workers: Iterable[str]) -> str:
    """Pause these workers as well; none named: all."""
    named = set(workers)
    if not named:
        return ALL
    kept = {name for name in scope.split(",") if name and name.removeprefix("-") not in named}
    return _spelled(kept if ALL in kept else kept | named)


def narrowed(scope: str, workers: Iterable[str]) -> str:
    """Resume these workers; none named: all. An empty scope pauses no worker."""
    named = set(workers)
    if not named:
        return ""
    kept = {name for name in scope.split(",") if name and name not in named}
    return _spelled(kept | {f"-{name}" for name in named} if ALL in kept else kept)


def _spelled(names: set[str]) -> str:
    return ",".join(sorted(names))
