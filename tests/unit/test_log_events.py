"""docs/log-events.md lists every log event of the source, with its level and fields, and no other."""

import re
from pathlib import Path

from support.source.log_events import LogEvent, log_events

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "log-events.md"
ROW = re.compile(r"^\| `(?P<name>[\w.-]+)` \| (?P<levels>[^|]*) \| [^|]* \| (?P<fields>[^|]*) \|$")
MADE_BY_THE_FORMATTER = {"task.output"}  # whatever a task prints; see runtime/log.py


def test_the_table_of_log_events_lists_those_of_the_source() -> None:
    events, unnamed = log_events(ROOT / "src")
    rows = {match["name"]: match for line in PAGE.read_text().splitlines() if (match := ROW.match(line))}
    faults = [f"begin the log message at {place} with an event: noun.past_participle" for place in unnamed]
    faults += [
        f"add   {events[name].row}   from {places(events[name])}" for name in sorted(events.keys() - rows.keys())
    ]
    faults += [f"remove the row of `{name}`" for name in sorted(rows.keys() - events.keys() - MADE_BY_THE_FORMATTER)]
    for name in sorted(events.keys() & rows.keys()):
        levels, fields = words(rows[name]["levels"]), set(re.findall(r"`(\w+)`", rows[name]["fields"]))
        if not events[name].levels <= levels or events[name].fields != fields:
            faults.append(f"change the row of `{name}` to   {events[name].row}   see {places(events[name])}")
    assert not faults, "docs/log-events.md:\n" + "\n".join(faults)


def words(cell: str) -> set[str]:
    return set(re.findall(r"\w+", cell))


def places(event: LogEvent) -> str:
    return ", ".join(sorted(event.places))
