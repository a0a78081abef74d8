"""Keep the figures of each minute in memory."""

from collections.abc import Iterator, Sequence

from stem.backends.memory.state import MemoryState
from stem.contracts.rollups import RollupCell, Rollups


class MemoryRollups(Rollups):
    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def _put(self, cells: Sequence[RollupCell]) -> None:
        with self._state.changed:
            for cell in cells:
                self._state.rollups[cell.micros, cell.digest] = cell.body

    def _read(self, since: int, until: int) -> Iterator[str | bytes]:
        with self._state.changed:
            found = sorted(item for item in self._state.rollups.items() if since <= item[0][0] < until)
        return (body for _, body in found)


def prune(state: MemoryState) -> int:
    """Under the state's lock."""
    horizon = (state.clock() - state.retention.events_seconds) * 1_000_000
    old = [place for place in state.rollups if place[0] <= horizon]
    for place in old:
        del state.rollups[place]
    return len(old)
