"""The names of a namespace's queues, in stretches: there may be very many, and the server is not to be held by them."""

from collections.abc import Iterator

from stem.backends.redis.space import Space

STRETCH = 1000  # names a call, about


def known(space: Space) -> Iterator[list[str]]:
    """Those that something was pushed to; a name may come twice."""
    yield from _scan(space, "SSCAN", "queues", 1)


def occupied(space: Space) -> Iterator[list[str]]:
    """Those that may have a task waiting, running or dead; a name may come twice."""
    yield from known(space)
    yield from _scan(space, "HSCAN", "running", 2)
    yield from _scan(space, "HSCAN", "buried", 2)


def _scan(space: Space, command: str, key: str, every: int) -> Iterator[list[str]]:
    """A hash answers with names and values in turn."""
    cursor = b"0"
    while True:
        cursor, found = space.link.call(command, space.key(key), cursor, "COUNT", STRETCH)
        if found:
            yield [name.decode() for name in found[::every]]
        if cursor == b"0":
            return
