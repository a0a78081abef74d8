"""Each case that schedulers meet in the field has a test, named `test_case_NN_…` after its row here."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
CASES = {
    1: "a fixed time in the spring gap fires once, right after it",
    2: "a fixed time in the autumn fold fires once; an hourly entry fires in both hours",
    3: "09:00 local stays 09:00 local over both changes",
    4: "changes of 30 minutes, 45 minutes, 2 hours, and at midnight",
    5: "next always moves forward",
    6: "six fields with second 0 behave as five on days of a change",
    7: "the 31st skips short months",
    8: "29 February after 2096 is in 2104",
    9: "day of the month and weekday: either, if neither begins with a star; otherwise both",
    10: "a date that never comes is refused at load",
    11: "7 = 0 = Sunday; names in any case; ranges wrap",
    12: "L, LW, 5L, MON#1",
    13: "a hostile range is refused before anything is expanded",
    14: "@reboot is refused with a sentence that names on_start",
    15: "many schedulers: one enqueue per instant, and the losers log nothing alarming",
    16: "a crash between record and enqueue leaves no blocked period",
    17: "a frozen leader that thaws fires nothing late",
    18: "an exception while taking the lead is not having it",
    19: "a leader that loses the lead goes on as a follower",
    20: "a clock set back: nothing fires again, nothing falls silent",
    21: "a clock set forward, a laptop suspended: one run or none by the policy",
    22: "missed while nobody ran: skip, once, all within the window",
    23: "first start and enabling again: no surprise run",
    24: "edited while due: neither lost nor twice",
    25: "an edit of one entry resets no other",
    26: "the last run survives disabling and restarts",
    27: "entries of code, file and run time: who owns what, retiring, edits at run time",
    28: "a corrupt or evicted entry is named, the others go on, declared ones heal",
    29: "overlap: allow, skip, buffer one, cancel other",
    30: "ten thousand entries with edits; a deadline for store calls; jitter before the next instant",
    31: "the task has vanished from the code: the entry shows it, nothing is lost, no loop",
}


def test_every_case_has_a_test_and_every_test_of_a_case_has_its_row() -> None:
    names = re.compile(r"^def test_case_(\d\d)_", re.MULTILINE)
    files = [
        path for path in TESTS.rglob("test_*.py") if "canvas" not in str(path.relative_to(TESTS))
    ]  # canvases have cases of their own
    found = {int(number) for path in files for number in names.findall(path.read_text())}
    assert found == set(CASES)
