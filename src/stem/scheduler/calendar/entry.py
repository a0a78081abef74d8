"""The kinds of schedule entry. Each has `next_after`, which always moves forward."""

from stem.scheduler.calendar.cron import Cron
from stem.scheduler.calendar.interval import Interval
from stem.scheduler.calendar.once import Once
from stem.scheduler.calendar.solar import Solar

Entry = Cron | Interval | Once | Solar
