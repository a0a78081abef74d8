"""The showcase behind `make demo`: enqueue, claim, settle and read back, on a SQLite file made for the occasion.

Ends in a table of what was expected and what was seen; exit 0 only if they agree.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from stem import Fixed, InvalidArguments, State, Stem, TaskFailed
from stem.core.delivery import DeadFilter, Ending
from stem.core.outcome import Done
from stem.testing import run_pending

Row = tuple[str, object, object]

directory = tempfile.TemporaryDirectory(prefix="stem-demo-")
url = f"sqlite:///{Path(directory.name) / 'stem.db'}"
app = Stem(url)
console = Console(width=110)
calls: list[int] = []


@app.task(name="mail.send", queue="mail", retry=Fixed(0.05), max_retries=3)
def send_mail(to: str, times_down: int = 0) -> str:
    """Fails as often as it is told to, as a mail server would."""
    calls.append(1)
    if len(calls) <= times_down:
        raise ConnectionError(f"mail server down, try {len(calls)}")
    return f"sent to {to}"


@app.task(name="math.square")
def square(n: int) -> int:
    return n * n


@app.task(name="report.build", unique="until_done")
async def build_report(day: str) -> dict[str, str]:
    return {"day": day, "rows": "many"}


def main() -> int:
    console.print(f"[bold]Stem demo[/bold] on {url}\n")
    rows: list[Row] = []
    for scene in (
        many_tasks,
        other_process,
        retry,
        dead_letter,
        lost_lease,
        order_and_delay,
        duplicates,
        refusals,
        history,
    ):
        started_at = time.perf_counter()
        seen = list(scene())
        rows += seen
        console.print(f"  {scene.__name__.replace('_', ' '):<16} {(time.perf_counter() - started_at) * 1000:8.0f} ms")
    return show(rows)


def many_tasks() -> Iterator[Row]:
    """A stream of calls in, every value out."""
    bulk = square.enqueue_many({"n": n} for n in range(5000))
    yield "5,000 calls enqueued in chunks", 5000, bulk.created
    yield "and counted exactly", 5000, app.store.broker.depth(["default"])["default"].ready
    done = 0
    while deliveries := app.store.broker.claim(["default"], limit=500, lease_seconds=30):
        endings = [Ending(each.lease, Done(run_square(each.envelope.args)), 0.0) for each in deliveries]
        refused = app.store.broker.settle(endings, worker="demo")
        done += len(endings) - len(refused)
    yield "claimed and settled in batches of 500", 5000, done


def run_square(args: msgspec.Raw) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(square(**msgspec.json.decode(args))))


def other_process() -> Iterator[Row]:
    """Another process reads what this one did."""
    handle = square.enqueue(12)
    yield "a new task is", State.QUEUED, handle.status().state
    run_pending(app)
    yield "its value here", 144, handle.get(timeout=5)
    yield "its value from the command line", "144", stem("task", "result", handle.id)


def retry() -> Iterator[Row]:
    """Two failures cost two attempts, then it succeeds."""
    calls.clear()
    handle = send_mail.enqueue("ada@example.org", times_down=2)
    run_until(lambda: handle.status().is_terminal)
    yield "a mail server that was down twice", "sent to ada@example.org", handle.get(timeout=5)
    yield "attempts before that", 2, handle.status().attempt


def dead_letter() -> Iterator[Row]:
    """Out of retries is not out of reach."""
    calls.clear()
    handle = send_mail.options(max_retries=0).enqueue("bob@example.org", times_down=1)
    run_pending(app)
    try:
        handle.get(timeout=5)
        said = "succeeded"
    except TaskFailed:
        said = "TaskFailed"
    yield "out of retries", "TaskFailed", said
    letter = app.store.deadletters.get(handle.id)
    yield "its dead letter says", "retries-exhausted", letter.reason if letter else None
    stem("dlq", "replay", handle.id)
    run_pending(app)
    yield "replayed from the command line", "sent to bob@example.org", handle.get(timeout=5)
    yield "dead letters left", 0, len(app.store.deadletters.page(DeadFilter(), limit=10).items)


def lost_lease() -> Iterator[Row]:
    """A holder that was given up for dead can change nothing."""
    broker, handle = app.store.broker, square.enqueue(3)
    [old] = broker.claim(["default"], limit=1, lease_seconds=0.05)
    run_until(lambda: handle.id in broker.reclaim().returned, drain=False)
    run_pending(app)
    refused = broker.settle([Ending(old.lease, Done(msgspec.Raw(b"666")), 0.0)], worker="zombie")
    yield "late settles refused", 1, len(refused)
    yield "and the value stands", 9, handle.get(timeout=5)


def order_and_delay() -> Iterator[Row]:
    """Urgent first; delayed never early; expired never."""
    slow, fast = (square.options(priority=priority).enqueue(1) for priority in (1, 9))
    claimed = app.store.broker.claim(["default"], limit=2, lease_seconds=30)
    names = {slow.id: "priority 1", fast.id: "priority 9"}
    yield "claimed first", "priority 9", names[claimed[0].lease.id]
    app.store.broker.settle([Ending(each.lease, Done(msgspec.Raw(b"1")), 0.0) for each in claimed], worker="demo")
    expired = square.options(delay=0.1, expires=timedelta(seconds=0.05)).enqueue(5)
    later, began = square.options(delay=0.2).enqueue(4), time.monotonic()
    run_until(lambda: later.status().is_terminal)
    waited = time.monotonic() - began
    yield "delayed by 0.2 s: not early, less than 1 s late", True, 0.2 <= waited < 1.2
    yield "expired while it waited", State.CANCELLED, expired.wait(timeout=5).state


def duplicates() -> Iterator[Row]:
    """The second of two equal calls is the first."""
    first, second = (build_report.enqueue(day="2026-01-01") for _ in range(2))
    yield "ids of a unique task enqueued twice", 1, len({first.id, second.id})
    again = square.options(id="order-42").enqueue(2), square.options(id="order-42").enqueue(2)
    yield "an id of your own makes enqueueing idempotent", [True, False], [handle.created for handle in again]
    run_pending(app)
    yield "an async def gives its value too", {"day": "2026-01-01", "rows": "many"}, first.get(timeout=5)


def refusals() -> Iterator[Row]:
    """What cannot run is refused before anything is written."""
    before = app.store.events.head()
    try:
        app.enqueue("math.square", args={"n": "twelve"})
        said = "accepted"
    except InvalidArguments:
        said = "InvalidArguments"
    yield 'n="twelve" for an int', "InvalidArguments", said
    yield "written by that", 0, len(app.store.events.read(before, limit=10))


def history() -> Iterator[Row]:
    """Every change left its event, in order."""
    kinds: dict[str, int] = {}
    offset = None
    while events := app.store.events.read(offset, limit=5000):
        offset = events[-1].offset
        for event in events:
            kinds[event.kind] = kinds.get(event.kind, 0) + 1
    depth = app.store.broker.depth()
    yield "events: enqueued = succeeded + expired", kinds["enqueued"], kinds["succeeded"] + kinds["expired"]
    yield (
        "started = succeeded + retried + failed",
        kinds["started"],
        sum(kinds[k] for k in ("succeeded", "retried", "failed")),
    )
    yield "tasks left anywhere", 0, sum(d.ready + d.delayed + d.running + d.dead for d in depth.values())


def run_until(is_true: Callable[[], bool], *, drain: bool = True) -> None:
    """Run what is due until the condition holds, sleeping until something is due."""
    ends_at = time.monotonic() + 10
    while not is_true():
        assert time.monotonic() < ends_at, "the demo waited 10 s for something that should take one"
        if drain:
            run_pending(app)
        app.store.broker.wait(["default", "mail"] if drain else ["nothing"], timeout_seconds=0.05)


def stem(*words: str) -> str:
    """The command line, as a person would type it, in a process of its own."""
    command = [sys.executable, "-m", "stem", *words, "--broker-url", url]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout.strip()  # noqa: S603


def show(rows: list[Row]) -> int:
    table = Table("what", "expected", "seen", "", title="what happened", title_justify="left")
    for what, expected, seen in rows:
        table.add_row(
            what, str(expected), str(seen), "[green]held[/green]" if expected == seen else "[red]FAILED[/red]"
        )
    failed = sum(expected != seen for _, expected, seen in rows)
    console.print()
    console.print(table)
    console.print(f"{len(rows) - failed} of {len(rows)} expectations held.")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        code = main()
    finally:
        app.close()
        directory.cleanup()
    sys.exit(code)
