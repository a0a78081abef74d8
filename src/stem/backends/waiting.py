"""Wait for something in a store: look, sleep until notified, look again. Shared by Redis and Postgres.

SQLite has a loop of its own (`SqliteNamespace.sleep_until`): it compares the state of the file from before each look.
"""

from collections.abc import Callable
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

LOOK_SECONDS = 1.0  # the least time for a look, however short the wait: a busy server is not gone


def look_and_sleep(
    look: Callable[[float], T],
    sleep: Callable[[float], T | None],
    end: float,
    is_closed: Callable[[], bool],
    *,
    is_known: bool = False,
) -> T | None:
    """Return the first true answer; when the time is up or the store is closed, a false one. Raises what `look` raises.

    `look` asks the store. `sleep` waits for a notification, no longer than until the next slow poll; an answer of it ends the
    wait without another look. Both get the seconds left. With `is_known` the first look is left out.
    """
    # The caller listens already: a change between a look and the sleep is notified, and ends the sleep at once.
    found = None
    while is_known or not (found := look(max(LOOK_SECONDS, end - monotonic()))):
        is_known = False
        if (left := end - monotonic()) <= 0 or is_closed():
            return found
        if answer := sleep(left):
            return answer
    return found
