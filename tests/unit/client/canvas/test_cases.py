"""Each case that users of canvases meet in the field has a test, named `test_case_NN_…` after its row here."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[3]
CASES = {
    1: "each result of a chain is the next one's first argument; an immutable signature takes none",
    2: "a chain of one, or of a chain of one, is as the bare task",
    3: "group, task, group: the middle waits for all of the first, the last runs after it",
    4: "four groups in sequence: each task exactly once",
    5: "a task after a chord runs once, after the callback",
    6: "groups in groups give one flat list; a chain that ends in a group stays nested",
    7: "results are in submission order, also when a member replaced itself by a group",
    8: "a value reaches the head of each chain of a group",
    9: "the list reaches a callback that is a task, a chain, a group or a chord",
    10: "arguments given at the submit reach the heads of a leading chord or nested chain",
    11: "empty groups and chains: alone, as a header, first, in the middle, last",
    12: "a header of one gives a list of one; a chain of one group in a header is waited for",
    13: "a header from a generator is a stream; large headers call back once",
    14: "a chain of chords and nested chords are stored in linear size",
    15: "the JSON form reads as the same; options are honoured; root and parent are exact",
    16: "a header of tasks, chains, groups and chords is counted right",
    17: "what is delivered twice counts once, and has one successor",
    18: "a crash after the success is stored: the next link runs exactly once",
    19: "a member that retries, or catches its soft limit, counts with its final value",
    20: "a member whose process is killed for good ends the chord, and its error callback runs once",
    21: "a member that is revoked while it waits, runs or is unknown to workers ends the chord",
    22: "results whose time is over before the chord ends still reach the callback",
    23: "the first task of a chain in a header fails: the chord fails",
    24: "a link fails: every later handle raises the same first cause",
    25: "a member of a middle group fails: later groups never run",
    26: "error callbacks: of a group per failed member, of a header once, of a member its own",
    27: "an inner header fails: the outer callback never runs, the outer error callback once",
    28: "an error callback that raises does not keep the others from running",
    29: "a callback that asks for it gets successes and failures together",
    30: "a task ends its chain early, without an error",
    31: "the whole is revoked, running members included: no callback",
    32: "a task is replaced by any canvas, anywhere, once; an empty replacement is refused",
    33: "a failed member is mended: what it had held up runs, what had succeeded does not run again",
    34: "the submitter is killed while submitting or right after: nothing, or all of it",
}


def test_every_case_has_a_test_and_every_test_of_a_case_has_its_row() -> None:
    names = re.compile(r"^def test_case_(\d\d)_", re.MULTILINE)
    files = [path for path in TESTS.rglob("test_*.py") if "canvas" in str(path.relative_to(TESTS))]
    found = {int(number) for path in files for number in names.findall(path.read_text())}
    assert found == set(CASES)
