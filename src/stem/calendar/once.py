"""One-shot entries."""

from datetime import UTC, datetime

import msgspec

from stem.core.errors import InvalidSchedule


class Once(msgspec.Struct, frozen=True):
    """An entry that fires once. Raises InvalidSchedule when it is made without a time zone."""

    at: datetime

    def __post_init__(self) -> None:
        if self.at.tzinfo is None:
            raise InvalidSchedule(f"The moment {self.at.isoformat()} has no time zone; add Z or an offset.")

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the instant in UTC if it lies after the moment."""
        return self.at.astimezone(UTC) if self.at > moment else None
