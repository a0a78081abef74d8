"""Intervals: every so often, counted from an anchor."""

from datetime import UTC, datetime, timedelta

import msgspec

from stem.core.errors import InvalidSchedule

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHORTEST = timedelta(seconds=1)
_LONGEST = timedelta(days=36_500)


class Interval(msgspec.Struct, frozen=True):
    """An entry that fires at the anchor plus whole multiples of `every`, before and after the anchor alike.

    The instants do not depend on when a scheduler started; elapsed time counts, so changes of clocks do not matter.
    Raises InvalidSchedule when it is made.
    """

    every: timedelta
    anchor: datetime = EPOCH

    def __post_init__(self) -> None:
        if not _SHORTEST <= self.every <= _LONGEST:
            raise InvalidSchedule(f"An interval of {self.every} is out of bounds; choose one second to 100 years.")
        if self.anchor.tzinfo is None:
            raise InvalidSchedule(f"The anchor {self.anchor.isoformat()} has no time zone; add Z or an offset.")

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first instant after the moment, in UTC; None past the end of the calendar."""
        try:
            periods = (moment - self.anchor) // self.every + 1
            return (self.anchor + periods * self.every).astimezone(UTC)
        except OverflowError:
            return None
