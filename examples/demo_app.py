"""The tasks of the demo, as an application would write them: good ones, unlucky ones, and one that crashes."""

import asyncio
import os
import signal
import time
from pathlib import Path

from stem import Fixed, SoftTimeLimitExceeded, Stem, TaskContext

app = Stem()  # the demo names its store in STEM_BROKER_URL
place = Path(os.environ["STEM_DEMO_PLACE"])  # where the demo and its tasks leave each other marks


@app.task(name="math.square")
def square(n: int) -> int:
    return n * n


@app.task(name="math.total")
def total(values: list[int]) -> int:
    return sum(values)


@app.task(name="book.bind", max_retries=0)
def bind_book(pages: int) -> str:
    if not (place / "glue").exists():
        raise RuntimeError("out of glue")
    return f"book of {pages} pages"


@app.task(name="book.shelve")
def shelve(book: str) -> str:
    return f"{book} shelved"


@app.task(name="order.place")
def order(ctx: TaskContext, number: int) -> str:
    """Pays once, whatever happens afterwards, and then waits until somebody approves."""
    payments = ctx.step("pay", _pay)
    who = ctx.wait_event("approved", timeout="5m")
    return f"order {number} paid {'once' if payments == 1 else payments}, approved by {who}"


def _pay() -> int:
    with (place / "payments").open("a") as ledger:
        ledger.write("paid\n")
    return len((place / "payments").read_text().splitlines())


@app.task(name="mail.send", queue="mail", retry=Fixed(0.05), max_retries=3)
def send_mail(ctx: TaskContext, to: str, times_down: int = 0) -> str:
    """The mail server is down at the first attempts."""
    if ctx.attempt < times_down:
        raise ConnectionError(f"mail server down at attempt {ctx.attempt}")
    print(f"to {to}")
    return f"sent to {to}"


@app.task(name="invoice.post", max_retries=0)
def post_invoice(number: int) -> str:
    if not (place / "paper").exists():
        raise RuntimeError("out of paper")
    return f"invoice {number} posted"


@app.task(name="report.build", unique="until_done")
async def build_report(day: str) -> dict[str, str]:
    """Waits until the books are closed."""
    while not (place / "closed").exists():
        await asyncio.sleep(0.01)
    return {"day": day, "rows": "many"}


@app.task(name="page.render", soft_limit=0.3, hard_limit=5)
def render(pages: int) -> str:
    """Does what it can within its soft limit."""
    try:
        for _ in range(pages):
            time.sleep(0.02)
    except SoftTimeLimitExceeded:
        return "some pages"
    return "all pages"


@app.task(name="disk.hang", hard_limit=0.3, max_retries=0)
def hang() -> None:
    while True:
        time.sleep(60)


@app.task(name="native.crash", retry=Fixed(0.05))
def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@app.task(name="rows.load")
def load_rows(ctx: TaskContext, rows: int) -> int:
    """Stops half-way until somebody has seen how far it is."""
    for row in range(rows):
        ctx.progress((row + 1) / rows, "loading")
        while row + 1 == rows // 2 and not (place / "seen").exists():
            time.sleep(0.01)
    return rows


@app.task(name="api.call", rate_limit="20/s", rate_burst=5)
def call_api(n: int) -> int:
    return n


@app.task(name="vote.count", isolate=False)
def count_votes(votes: list[str]) -> int:
    return len(set(votes))


@app.task(name="backup.copy")
def copy_backup() -> str:
    """Takes until somebody says that it is done."""
    (place / f"copying-{os.getpid()}").touch()
    while not (place / "copied").exists():
        time.sleep(0.01)
    return "copied"


@app.task(name="file.scan", queue="files")
def scan(number: int) -> int:
    """The second half of them is on a disk that has to be mounted first."""
    while number >= 200 and not (place / "mounted").exists():
        time.sleep(0.01)
    time.sleep(0.01)
    return number
