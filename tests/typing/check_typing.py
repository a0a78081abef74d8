"""What a type checker must accept and refuse. Checked by mypy, where an expected error that is missing is an error too."""

from typing import Any, assert_type

import stem
from stem import (
    AsyncTask,
    CanvasHandle,
    CanvasStatus,
    Middleware,
    Signature,
    Stem,
    Task,
    TaskContext,
    TaskError,
    TaskFailed,
    TaskHandle,
    TaskRecord,
    chain,
    chord,
    current_task,
    group,
    workflow,
)
from stem.client.canvas.canvas import Chain
from stem.client.canvas.group import Group
from stem.client.send.sender import Item
from stem.control.caller import Answers
from stem.control.pausing import Paused
from stem.control.revoking import RevokeResult

app = Stem("memory://typing")


@app.task
def add(a: int, b: int = 2) -> int:
    return a + b


@app.task(queue="mail", max_retries=5, retry=[1, 5, 30], rate_limit="5/s", unique="until_done")
def send(to: str, *, subject: str = "") -> bool:
    return bool(to and subject)


@app.task(name="bill", aliases=["invoice"], hard_limit="30m", soft_limit=60, retry=["1s", 5])
def bill(cents: int) -> int:
    return cents


@app.task
async def fetch(url: str) -> bytes:
    return url.encode()


@app.task(hard_limit=30)
async def count(words: list[str]) -> dict[str, int]:
    return dict.fromkeys(words, 1)


@app.task
def report(ctx: TaskContext, year: int, *, deep: bool = False) -> str:
    ctx.progress(0.5, "half", rows=7)
    assert_type(ctx.enqueue(add, 1, b=2), TaskHandle[int])
    assert_type(ctx.enqueue(add.options(delay=5), 1), TaskHandle[int])
    assert_type(ctx.enqueue(report, 2024, deep=True), TaskHandle[str])
    assert_type(ctx.enqueue("any.name", args={"a": 1}, priority=9), TaskHandle[Any])
    return ctx.retry(5) if year < 2000 else f"{year}{deep}"


@app.task(retry_on=(OSError, ValueError), no_retry_on=KeyError, max_concurrency=2, rate_limit="5/s", rate_burst=9)
async def crawl(ctx: TaskContext, url: str) -> int:
    return len(f"{ctx.tenant}{url}")


@app.task
def keep(what: object, n: int) -> int:
    return n if what else 0


def accepted() -> None:
    assert_type(report.enqueue(2024, deep=True), TaskHandle[str])
    assert_type(report(2024), str)
    assert_type(crawl.enqueue("https://example.org"), TaskHandle[int])
    assert_type(keep.enqueue("anything", 1), TaskHandle[int])
    assert_type(current_task().parent_id, str | None)
    app.use(Middleware())
    assert_type(add(1), int)
    assert_type(add.enqueue(1, b=3), TaskHandle[int])
    assert_type(add.enqueue(1).get(timeout=5), int)
    assert_type(send.options(delay=5, id="x").enqueue("ada", subject="hi"), TaskHandle[bool])
    assert_type(app.enqueue("any.name", args={"a": 1}, priority=9), TaskHandle[Any])
    assert_type(bill.options(delay="5m", expires="1h").enqueue(5), TaskHandle[int])
    assert_type(bill.enqueue(5).revoke(terminate=True, reason="late"), RevokeResult)
    assert_type(bill.enqueue(5).status().to_dict(), dict[str, Any])
    assert_type(app.control.ping(workers=["w1"], timeout="2s"), Answers)
    assert_type(app.control.inspect(queue="mail"), Answers)
    assert_type(app.control.pause("mail", "bulk"), Paused)
    assert_type(stem.__version__, str)
    Stem("memory://typed", include=["shop.tasks"], hard_limit="5m").autodiscover(["shop"])
    try:
        add.enqueue(1).get()
    except TaskFailed as failure:
        assert_type(failure.record, TaskRecord | None)
        assert_type(failure.error, TaskError | None)
    add.enqueue_many([add.item(1), add.options(id="one").item(2, b=3), {"a": 1}])
    task: Task[[str], bytes] = fetch
    assert_type(fetch.enqueue("https://example.org"), TaskHandle[bytes])
    assert_type(task.enqueue("https://example.org"), TaskHandle[bytes])


async def awaited() -> None:
    assert_type(await add.enqueue(1).arevoke(), RevokeResult)
    assert_type(await add.enqueue(1).astatus(), TaskRecord)
    assert_type(await app.control.aping(), Answers)
    assert_type(await app.control.arevoke("a", "b", terminate=True), RevokeResult)
    assert_type(await fetch("https://example.org"), bytes)
    assert_type(await (await fetch.aenqueue("https://example.org")), bytes)
    assert_type(await crawl("https://example.org"), int)
    assert_type(await count.enqueue(["a"]).aget(1), dict[str, int])
    task: AsyncTask[[list[str]], dict[str, int]] = count
    assert_type(await task(["a"]), dict[str, int])


def composed(ctx: TaskContext) -> None:
    assert_type(add.s(1), Signature[int])
    assert_type(add.si(1, b=2), Signature[int])
    assert_type(fetch.s("https://example.org"), Signature[bytes])
    assert_type(add.s(1).set(queue="mail", delay="5m").link(send.s()).link_error(keep.s()), Signature[int])
    assert_type(add.s(1) | bill.s(), Chain[int])
    assert_type((add.s(1) | report.s()).submit(), CanvasHandle[str])
    assert_type((add.s(1) | report.s()).enqueue(2).get(timeout=5), str)
    assert_type(group(add.s(1), add.s(2)), Group[int])
    assert_type(group(report.s(year) for year in (1, 2)).submit().get(), list[str])
    assert_type(add.map([1, 2]), Group[int])
    assert_type(chord([add.s(1), add.s(2)], report.s()).submit().get(), str)
    assert_type((group(add.s(1)) | group(report.s())).submit().get(), list[str])
    assert_type(chain(add.s(1), add.s(2)).submit(), CanvasHandle[Any])
    flow = workflow("orders")
    flow.add("bill", bill.s(5), after=[flow.add("add", add.s(1))], inputs={"cents": "add"})
    assert_type(flow.submit().get(), dict[str, Any])
    assert_type(flow.submit().status(), CanvasStatus)
    assert_type(app.canvas("some"), CanvasHandle[Any])
    assert_type(ctx.enqueue(add.s(1)), CanvasHandle[int])
    assert_type(ctx.spawn(add.s(1)), list[TaskHandle[Any]])
    ctx.replace(add.s(1) | bill.s())


async def composed_and_awaited() -> None:
    assert_type(await (add.s(1) | report.s()).asubmit(), CanvasHandle[str])
    assert_type(await (await group(add.s(1)).asubmit()), list[int])
    assert_type(await add.s(1).submit().aget(1), int)


@app.schedule("0 2 * * *", time_zone="Europe/Berlin", overlap="skip")
@app.task
def nightly(day: str = "") -> int:
    return len(day)


def scheduled_and_steered() -> None:
    assert_type(nightly.enqueue("monday"), TaskHandle[int])  # a schedule leaves the task as it was
    assert_type(app.handle("some"), TaskHandle[Any])
    assert_type(add.enqueue(1).wait(timeout=5), TaskRecord)
    assert_type(add.enqueue(1).send_event("paid", {"by": "ada"}), None)
    assert_type(app.send_event("some", "paid"), None)
    assert_type(app.submit(add.s(1) | report.s()), CanvasHandle[str])
    handle = (add.s(1) | report.s()).submit()
    assert_type(handle.wait(timeout=5), TaskRecord)
    assert_type(handle.revoke(terminate=True), list[str])
    assert_type(handle.resume(), list[str])
    assert_type(app.control.stats(), Answers)
    assert_type(app.control.revoke("a", reason="late"), RevokeResult)
    assert_type(app.control.resume("mail"), Paused)
    assert_type(app.control.shutdown("warm"), Answers)


async def async_twins() -> None:
    assert_type(await app.aenqueue("any.name", args={"a": 1}), TaskHandle[Any])
    assert_type(await app.asend_event("some", "paid"), None)
    assert_type(await add.enqueue(1).await_ended(5), TaskRecord)
    assert_type(await app.control.ainspect(queue="mail"), Answers)
    assert_type(await app.control.apause("mail"), Paused)
    handle = await (add.s(1) | report.s()).asubmit()
    assert_type(await handle, str)
    assert_type(await handle.astatus(), CanvasStatus)
    assert_type(await handle.await_ended(5), TaskRecord)
    assert_type(await handle.arevoke(), list[str])
    assert_type(await handle.aresume(), list[str])


def refused_schedules() -> None:
    app.schedule(5)  # type: ignore[arg-type]
    app.schedule("0 2 * * *", timezone="UTC")  # type: ignore[call-arg]
    app.schedule("0 2 * * *", overlap=3)  # type: ignore[arg-type]
    app.control.revoke(5)  # type: ignore[arg-type]
    app.send_event("some")  # type: ignore[call-arg]
    app.submit(add)  # type: ignore[arg-type]


def refused_compositions(ctx: TaskContext) -> None:
    add.si("1")  # type: ignore[arg-type]
    add.s(1) | add  # type: ignore[operator]
    add.s(1).set(countdown=5)  # type: ignore[call-arg]
    group(add)  # type: ignore[call-overload]
    ctx.replace(add)  # type: ignore[arg-type]


def refused(ctx: TaskContext) -> None:
    report.enqueue("2024")  # type: ignore[arg-type]
    report.enqueue(ctx)  # type: ignore[arg-type]
    crawl.enqueue(5)  # type: ignore[arg-type]
    keep.enqueue("anything", "1")  # type: ignore[arg-type]
    ctx.enqueue(add, "1")  # type: ignore[call-overload]
    ctx.enqueue("any.name", args=5)  # type: ignore[call-overload]
    app.use(Middleware)  # type: ignore[arg-type]
    app.task(retry_on="ValueError")  # type: ignore[call-overload]
    add.enqueue("1")  # type: ignore[arg-type]
    add.enqueue()  # type: ignore[call-arg]
    add.enqueue(1, c=3)  # type: ignore[call-arg]
    send.enqueue("ada", "hi")  # type: ignore[call-arg]
    send.options(delay=5).enqueue(to=5)  # type: ignore[arg-type]
    add.options(prioritty=5)  # type: ignore[call-arg]
    add.options(priority="high")  # type: ignore[arg-type]
    fetch.enqueue(b"https://example.org")  # type: ignore[arg-type]
    add.item("1")  # type: ignore[arg-type]
    add.enqueue_many([send.item("ada")])  # type: ignore[list-item]
    add.delay(1)  # type: ignore[attr-defined]
    app.send_task("add")  # type: ignore[attr-defined]
    add.enqueue(1).result  # type: ignore[attr-defined] # noqa: B018
    app.control.pause(5)  # type: ignore[arg-type]
    app.control.shutdown("gently")  # type: ignore[arg-type]
    Stem(include=[5])  # type: ignore[list-item]
    app.task(colour="red")  # type: ignore[call-overload]
    text: str = add.enqueue(1).get()  # type: ignore[assignment]
    item: Item[[str], bool] = add.item(1)  # type: ignore[assignment]
    assert text and item
