"""The kinds of schedule entry. Each has `next_after`, which always moves forward."""

from stem.calendar.cron import Cron
from stem.calendar.interval import Interval
from stem.calendar.once import Once
from stem.calendar.solar import Solar

Entry = Cron | Interval | Once | Solar
