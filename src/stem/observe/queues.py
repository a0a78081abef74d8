"""Queues: depth, workers and pauses, and what they did over a period."""

from collections.abc import Iterable

import msgspec

from stem.contracts.rollups import MinuteRow
from stem.contracts.steering.revokes import Revokes
from stem.contracts.store import Store
from stem.control.queue_states import QueueState, queue_states
from stem.observe.rates import Period, RateHistory, RatePoint, Totals, history_by


class QueueView(msgspec.Struct, frozen=True):
    state: QueueState
    history: RateHistory

    @property
    def name(self) -> str:
        return self.state.name


def queues(store: Store, revokes: Revokes, rows: Iterable[MinuteRow], span: Period) -> list[QueueView]:
    """Return the queues that hold a task, are served or are paused, by name."""
    histories = history_by((row for row in rows if row.queue), span, ("queue",))
    nothing = RateHistory([RatePoint(at=at) for at in span.starts], Totals())
    return [QueueView(state, histories.get((state.name,), nothing)) for state in queue_states(store, revokes)]
