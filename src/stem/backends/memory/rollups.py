"""What was counted of each minute, in memory."""

from collections.abc import Iterator, Sequence

from stem.backends.memory.space import Space
from stem.contracts.rollups import Cell, Rollups


class MemoryRollups(Rollups):
    def __init__(self, space: Space) -> None:
        self._space = space

    def _put(self, cells: Sequence[Cell]) -> None:
        with self._space.changed:
            for cell in cells:
                self._space.rollups[cell.micros, cell.digest] = cell.body

    def _read(self, since: int, until: int) -> Iterator[str | bytes]:
        with self._space.changed:
            found = sorted(item for item in self._space.rollups.items() if since <= item[0][0] < until)
        return (body for _, body in found)


def prune(space: Space) -> int:
    """Under the space's lock."""
    horizon = (space.clock() - space.retention.events_seconds) * 1_000_000
    old = [place for place in space.rollups if place[0] <= horizon]
    for place in old:
        del space.rollups[place]
    return len(old)
