"""The showcase behind `make demo`: a store, then a real worker on it, then Spark, on a SQLite file made for the occasion.

Ends in a table of what was expected and what was seen; exit 0 only if they agree.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from stem import InvalidArguments, State, TaskFailed, TaskHandle, chain, group
from stem.core.delivery import DeadFilter, Ending
from stem.core.outcome import Done

directory = tempfile.TemporaryDirectory(prefix="stem-demo-")
place = Path(directory.name)
url = f"sqlite:///{place / 'stem.db'}"
os.environ.update(STEM_BROKER_URL=url, STEM_NAMESPACE="demo", STEM_DEMO_PLACE=str(place))
os.environ.setdefault("STEM_SPARK_ARCHIVE", "off")  # the demo leaves nothing running
for name in ("STEM_RESULT_BACKEND_URL", "STEM_SPARK_MASTER", "STEM_SPARK_REMOTE"):
    os.environ.pop(name, None)

import demo_app as tasks  # noqa: E402 - reads the environment, as an app does

app = tasks.app
Row = tuple[str, object, object]
console = Console(width=120)
PATIENCE_SECONDS = 30.0


def main() -> int:
    console.print(f"[bold]Stem demo[/bold] on {url}\n")
    rows = play(many_calls, lost_lease, order_and_delay, refusals)
    with worker("one"):
        rows += play(hundreds, duplicates, retry, dead_letter, limits, crash_loop, progress, rate_limit, inline)
    with worker("composer"):
        rows += play(chord, mended_chain, durable_steps)
    rows += play(killed_worker, warm_stop, schedule, history, spark_report)
    return show(rows)


def play(*scenes: Callable[[], Iterator[Row]]) -> list[Row]:
    rows: list[Row] = []
    for scene in scenes:
        started_at = time.perf_counter()
        rows += scene()
        console.print(f"  {scene.__name__.replace('_', ' '):<16} {(time.perf_counter() - started_at) * 1000:8.0f} ms")
    return rows


# The store by itself


def many_calls() -> Iterator[Row]:
    """A stream of calls in, every value out."""
    bulk = tasks.square.enqueue_many({"n": n} for n in range(5000))
    yield "5,000 calls enqueued in chunks", 5000, bulk.created
    yield "and counted exactly", 5000, app.store.broker.depth(["default"])["default"].ready
    done = 0
    while deliveries := app.store.broker.claim(["default"], limit=500, lease_seconds=30):
        endings = [Ending(each.lease, Done(run_square(each.envelope.args)), 0.0) for each in deliveries]
        done += len(endings) - len(app.store.broker.settle(endings, worker="demo"))
    yield "claimed and settled in batches of 500", 5000, done


def run_square(args: msgspec.Raw) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(tasks.square(**msgspec.json.decode(args))))


def lost_lease() -> Iterator[Row]:
    """A holder that was given up for dead can change nothing."""
    broker, handle = app.store.broker, tasks.square.enqueue(3)
    [old] = broker.claim(["default"], limit=1, lease_seconds=0.05)
    until(lambda: handle.id in broker.reclaim().returned)
    [new] = broker.claim(["default"], limit=1, lease_seconds=30)
    broker.settle([Ending(new.lease, Done(msgspec.Raw(b"9")), 0.0)], worker="demo")
    refused = broker.settle([Ending(old.lease, Done(msgspec.Raw(b"666")), 0.0)], worker="zombie")
    yield "late settles refused", 1, len(refused)
    yield "and the value stands", 9, handle.get(timeout=5)


def order_and_delay() -> Iterator[Row]:
    """Urgent first; delayed never early."""
    slow, fast = (tasks.square.options(priority=priority).enqueue(1) for priority in (1, 9))
    claimed = app.store.broker.claim(["default"], limit=2, lease_seconds=30)
    yield "claimed first", "priority 9", {slow.id: "priority 1", fast.id: "priority 9"}[claimed[0].lease.id]
    app.store.broker.settle([Ending(each.lease, Done(msgspec.Raw(b"1")), 0.0) for each in claimed], worker="demo")


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


# With a worker


def hundreds() -> Iterator[Row]:
    """Many tasks in isolates; any process can read what they return."""
    handles = [tasks.square.enqueue(n) for n in range(300)]
    yield "300 tasks run, their sum", sum(n * n for n in range(300)), sum(h.get(PATIENCE_SECONDS) for h in handles)
    yield "one of them, from the command line", "144", stem("task", "result", handles[12].id)
    expired = tasks.square.options(delay=0.2, expires=timedelta(seconds=0.1)).enqueue(5)
    yield "delayed by 0.3 s: not early, less than 1 s late", True, 0 <= least_late() < 1
    yield "expired while it waited", State.CANCELLED, expired.wait(timeout=5).state


def least_late() -> float:
    """Of a few tries, since the machine may be busy with something else; of all of them if one is early."""
    late: list[float] = []
    while not late or (min(late) >= 1 and len(late) < 5):
        began = time.monotonic()
        tasks.square.options(delay=0.3).enqueue(4).wait(PATIENCE_SECONDS)
        late.append(time.monotonic() - began - 0.3)
    return min(late)


def duplicates() -> Iterator[Row]:
    """The second of two equal calls is the first."""
    first, second = (tasks.build_report.enqueue(day="2026-01-01") for _ in range(2))
    (place / "closed").touch()
    yield "ids of a unique task enqueued twice", 1, len({first.id, second.id})
    again = [tasks.square.options(id="order-42").enqueue(2) for _ in range(2)]
    yield "an id of your own makes enqueueing idempotent", [True, False], [handle.created for handle in again]
    yield "an async def gives its value too", {"day": "2026-01-01", "rows": "many"}, first.get(PATIENCE_SECONDS)


def retry() -> Iterator[Row]:
    """Two failures cost two attempts, then it succeeds."""
    handle = tasks.send_mail.enqueue("ada@example.org", times_down=2)
    yield "a mail server that was down twice", "sent to ada@example.org", handle.get(PATIENCE_SECONDS)
    yield "attempts before that", 2, handle.status().attempt
    until(lambda: f"task.output id={handle.id} to ada@example.org" in worker_log("one"))
    yield "what it printed is in the worker's log, with its id", True, True


def dead_letter() -> Iterator[Row]:
    """Out of retries is not out of reach."""
    handle = tasks.post_invoice.enqueue(7)
    yield "out of retries", "TaskFailed, retries-exhausted", ending_of(handle)
    (place / "paper").touch()
    stem("dlq", "replay", handle.id)
    yield "replayed from the command line", "invoice 7 posted", handle.get(PATIENCE_SECONDS)
    yield "dead letters left", 0, len(app.store.deadletters.page(DeadFilter(), limit=10).items)


def limits() -> Iterator[Row]:
    """A soft limit is told, a hard one enforced, and neighbours notice neither."""
    soft, hard, neighbour = tasks.render.enqueue(pages=500), tasks.hang.enqueue(), tasks.square.enqueue(11)
    yield "told of its soft limit, it ends early", "some pages", soft.get(PATIENCE_SECONDS)
    yield "deaf to all, it is ended at its hard limit", "TaskFailed, retries-exhausted", ending_of(hard)
    yield "and a neighbour runs on", 121, neighbour.get(PATIENCE_SECONDS)


def crash_loop() -> Iterator[Row]:
    """A task that fells its process is given up after three; the worker lives."""
    handle = tasks.crash.enqueue()
    yield "it crashes each time", "TaskFailed, crash-loop", ending_of(handle)
    letter = app.store.deadletters.get(handle.id)
    yield "after so many deaths", 3, letter.meta["deaths"] if letter else None
    yield "the worker goes on", 4, tasks.square.enqueue(2).get(PATIENCE_SECONDS)


def progress() -> Iterator[Row]:
    """How far a task is can be seen while it runs."""
    handle = tasks.load_rows.enqueue(rows=50)
    until(lambda: handle.status().meta.get("progress") == {"fraction": 0.5, "message": "loading"})
    yield "half of the rows are in, and it is", State.RUNNING, handle.status().state
    (place / "seen").touch()
    yield "rows loaded", 50, handle.get(PATIENCE_SECONDS)


def rate_limit() -> Iterator[Row]:
    """20 a second with 5 saved up: 25 calls take a second at least, and no attempt."""
    began = time.monotonic()
    handles = [tasks.call_api.enqueue(n) for n in range(25)]
    ended = [handle.wait(PATIENCE_SECONDS) for handle in handles]
    yield "25 calls at 20 a second take a second or more", True, time.monotonic() - began >= 0.95
    yield "of which succeeded", 25, sum(each.state is State.SUCCEEDED for each in ended)
    yield "attempts that the waiting cost", 0, sum(each.attempt for each in ended)


def inline() -> Iterator[Row]:
    """Tasks that ask not to be isolated share a process."""
    yield "a task without isolation", 2, tasks.count_votes.enqueue(["ada", "bob", "ada"]).get(PATIENCE_SECONDS)


def killed_worker() -> Iterator[Row]:
    """kill -9 for the worker in the middle of a task: another one runs it again."""
    handle = tasks.copy_backup.enqueue()
    with worker("two"):
        until(lambda: copies() == 1)
    with worker("three") as three:
        until(lambda: copies() == 2)
        (place / "copied").touch()
        yield "a task whose worker was killed", "copied", handle.get(PATIENCE_SECONDS)
        yield "run again by worker", "three", handle.status().worker
        yield "attempts that it cost", 0, handle.status().attempt
        yield "exit code after TERM", 0, stop(three)


def warm_stop() -> Iterator[Row]:
    """TERM in the middle of a heap of work: nothing is lost, nothing is run twice."""
    before = count_events()
    handles = [tasks.scan.enqueue(n) for n in range(400)]
    with worker("four") as four:
        handles[20].wait(PATIENCE_SECONDS)
        four.send_signal(signal.SIGTERM)
        until(lambda: "worker.stop_requested" in worker_log("four"))
        (place / "mounted").touch()
        yield "exit code after TERM in the middle of 400 tasks", 0, four.wait(PATIENCE_SECONDS)
    left = app.store.broker.depth(["files"])["files"]
    yield "leases left behind", 0, left.running
    yield "some tasks are left to do", True, 0 < left.ready < 400
    with worker("five"):
        yield "the next worker does them, in all", 400, sum(h.wait(PATIENCE_SECONDS).attempt == 0 for h in handles)
    after = count_events()
    yield "successes", 400, after["succeeded"] - before["succeeded"]
    yield "starts", 400, after["started"] - before["started"]


def schedule() -> Iterator[Row]:
    """Two schedulers, one of them killed: each instant is enqueued once."""
    stem("schedule", "add", "squares", "--task", "math.square", "--arg", "n=3", "--spec", "every 1 second")
    with worker("six"):
        with beat(), beat():
            until(lambda: runs_of("squares") >= 1)
        with beat():
            until(lambda: runs_of("squares") >= 3)
        stem("schedule", "disable", "squares")
        found = app.store.schedules.get("squares")
        sent = [app.handle(run.task_id) for run in found.state.history if run.task_id] if found else []
        yield "values of a task that ran every second", {9}, {each.get(PATIENCE_SECONDS) for each in sent}
        instants = {each.status().meta["scheduledFor"] for each in sent}
        yield "instants that were enqueued twice", 0, len(sent) - len(instants)


def chord() -> Iterator[Row]:
    """A callback waits for all members of a group, and gets their values in order."""
    handle = (group(tasks.square.s(n) for n in range(100)) | tasks.total.s()).submit()
    yield "sum of a hundred squares, by a chord", sum(n * n for n in range(100)), handle.get(PATIENCE_SECONDS)
    yield "tasks of the chord that succeeded", 101, handle.status().counts[State.SUCCEEDED]


def mended_chain() -> Iterator[Row]:
    """A link fails, what follows is cancelled; mended and resumed, the rest goes on and nothing runs twice."""
    handle = chain(tasks.square.s(4), tasks.bind_book.s(), tasks.shelve.s()).submit()
    try:
        handle.get(PATIENCE_SECONDS)
    except TaskFailed as failure:
        yield "a chain whose middle fails", "RuntimeError: out of glue", str(failure).partition("attempt: ")[2]
    (place / "glue").touch()
    stem("canvas", "resume", handle.id)
    yield "mended and resumed from the command line", "book of 16 pages shelved", handle.get(PATIENCE_SECONDS)


def durable_steps() -> Iterator[Row]:
    """A task that waits for an approval holds no slot, and repeats none of its steps."""
    handle = tasks.order.enqueue(7)
    until(lambda: len(app.store.steps.all(handle.id)) == 2)
    stem("task", "signal", handle.id, "approved", "--data", '"ada"')
    yield "a task that waited for an event", "order 7 paid once, approved by ada", handle.get(PATIENCE_SECONDS)


def history() -> Iterator[Row]:
    """Every change left its event."""
    kinds = count_events()
    ended = kinds["succeeded"] + kinds["joined"] + kinds["expired"] + kinds["failed"] - kinds["replayed"]
    yield "events: enqueued = ended − replayed", kinds["enqueued"], ended
    depth = app.store.broker.depth().values()
    yield (
        "tasks left waiting or running",
        0,
        sum(each.ready + each.delayed + each.running + each.blocked for each in depth),
    )
    yield "dead letters: the hung one and the crashed one", 2, sum(each.dead for each in depth)


def spark_report() -> Iterator[Row]:
    """All of it as data: into a lake, each event once, and out as a report."""
    from stem.pipeline import session
    from stem.pipeline.lake.lake import open_lake
    from stem.pipeline.lake.stream_to_lake import StreamToLake
    from stem.pipeline.report.report import report
    from stem.pipeline.report.text import text

    batches: list[int] = []
    spark = session("demo")
    StreamToLake(
        settings=app.settings, root=str(place / "lake"), on_batch=lambda batch: batches.append(batch.events)
    ).run(lambda: spark)
    now = datetime.now(UTC)
    made = report(open_lake(str(place / "lake")), spark, since=now - timedelta(hours=1), until=now)
    spark.stop()
    console.print(text(made), markup=False, highlight=False)
    kinds = count_events()
    yield "events in the lake", kinds.total(), sum(batches)
    yield "successes that Spark counted", kinds["succeeded"], made.now.succeeded
    yield "kinds of failures among them", 5, len(made.failures)


# The props


@contextmanager
def worker(name: str) -> "Iterator[subprocess.Popen[bytes]]":
    """`stem worker start`, as a person would type it; it ends with the block at the latest."""
    command = [
        sys.executable,
        "-m",
        "stem",
        "worker",
        "start",
        "--app",
        "demo_app:app",
        "--name",
        name,
        "--lease",
        "2s",
    ]
    with open(place / f"{name}.log", "wb") as log:
        process = subprocess.Popen(command, cwd=Path(__file__).parent, stderr=log)  # noqa: S603
    try:
        until(lambda: "worker.started" in worker_log(name) or process.poll() is not None)
        assert process.poll() is None, f"worker {name} did not start"
        yield process
    except BaseException:
        console.print(worker_log(name), markup=False)
        raise
    finally:
        process.kill()
        process.wait()


@contextmanager
def beat() -> Iterator[None]:
    """`stem beat`, killed at the end of the block."""
    process = subprocess.Popen([sys.executable, "-m", "stem", "beat"], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def runs_of(schedule_id: str) -> int:
    found = app.store.schedules.get(schedule_id)
    return found.state.run_count if found is not None else 0


def stop(process: "subprocess.Popen[bytes]") -> int:
    process.send_signal(signal.SIGTERM)
    return process.wait(timeout=PATIENCE_SECONDS)


def worker_log(name: str) -> str:
    return (place / f"{name}.log").read_text()


def copies() -> int:
    return len(list(place.glob("copying-*")))


def ending_of(handle: "TaskHandle[None] | TaskHandle[str]") -> str:
    """How its caller is told, and what its dead letter says."""
    try:
        handle.get(PATIENCE_SECONDS)
        said = "succeeded"
    except TaskFailed:
        said = "TaskFailed"
    letter = app.store.deadletters.get(handle.id)
    return f"{said}, {letter.reason if letter else 'no dead letter'}"


def count_events() -> Counter[str]:
    kinds: Counter[str] = Counter()
    offset = None
    while events := app.store.events.read(offset, limit=5000):
        offset = events[-1].offset
        kinds.update(event.kind for event in events)
    return kinds


def until(is_true: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + PATIENCE_SECONDS
    while not is_true():
        assert time.monotonic() < ends_at, f"the demo waited {PATIENCE_SECONDS:g} s for something that should take one"
        time.sleep(0.02)


def stem(*words: str) -> str:
    """The command line, as a person would type it, in a process of its own."""
    command = [sys.executable, "-m", "stem", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout.strip()  # noqa: S603


def show(rows: list[Row]) -> int:
    table = Table(title="what happened", title_justify="left")
    for column in ("what", "expected", "seen", ""):
        table.add_column(column, no_wrap=column == "what")
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
