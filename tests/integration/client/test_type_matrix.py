"""Every type that users annotate with arrives and comes back as itself, whichever way a call is made."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stem import Stem, Task, TaskContext, chain, chord, group, workflow
from stem.core.text.plain import to_plain
from stem.testing import eager, run_pending
from support.worker_apps.typed import VALUES, check, echo_of, gather_of
from support.workers.processes import environment, worker_here

Tasks = tuple[Task[..., Any], Task[..., Any]]


@pytest.fixture(scope="module")
def app() -> Iterator[Stem]:
    with Stem("memory://type-matrix", max_retries=0) as opened:
        yield opened


@pytest.fixture(params=VALUES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tasks(app: Stem, kind: str) -> Tasks:
    known = app.tasks.get(f"echo.{kind}"), app.tasks.get(f"gather.{kind}")
    return (known[0] or echo_of(kind, app), known[1] or gather_of(kind, app))


def ran(app: Stem, handle: Any) -> Any:
    run_pending(app)
    return handle.get(5)


def test_one_call_and_its_result(app: Stem, kind: str, tasks: Tasks) -> None:
    value, (echo, _) = VALUES[kind][1], tasks
    check(kind, ran(app, echo.enqueue(value)))
    check(kind, ran(app, app.enqueue(echo.name, {"value": value})))
    check(kind, ran(app, app.handle(echo.enqueue(value).id)))
    check(kind, asyncio.run(sent_and_awaited(app, echo, value)))
    with eager(app):
        check(kind, echo.enqueue(value).get())


async def sent_and_awaited(app: Stem, echo: Task[..., Any], value: Any) -> Any:
    handle = await echo.aenqueue(value)
    await asyncio.to_thread(run_pending, app)
    return await handle.aget(5)


def test_many_calls(app: Stem, kind: str, tasks: Tasks) -> None:
    value, (echo, _) = VALUES[kind][1], tasks
    echo.enqueue_many([{"value": value}, echo.options(id=f"item-{kind}").item(value)])
    check(kind, ran(app, app.handle(f"item-{kind}")))
    assert run_pending(app) == 0


def test_values_that_pass_from_task_to_task(app: Stem, kind: str, tasks: Tasks) -> None:
    value, (echo, gather) = VALUES[kind][1], tasks
    check(kind, ran(app, chain(echo.s(value), echo.s(), echo.s()).submit()))
    for each in ran(app, group(echo.s(value), echo.s(value)).submit()):
        check(kind, each)
    for each in ran(app, chord([echo.s(value), echo.s(value)], gather.s()).submit()):
        check(kind, each)
    for each in ran(app, echo.map([value, value]).submit()):
        check(kind, each)
    for each in ran(app, group(chain(echo.s(value), echo.s()) for _ in range(2)).submit()):
        check(kind, each)
    for each in ran(app, group(echo.s(value), group(echo.s(value), echo.s(value))).submit()):
        check(kind, each)
    flow = workflow("types")
    flow.add("last", echo.s(), inputs={"value": flow.add("first", echo.s(value))})
    check(kind, ran(app, flow.submit())["last"])


def test_a_canvas_that_was_written_and_read(app: Stem, kind: str, tasks: Tasks) -> None:
    value, (echo, _) = VALUES[kind][1], tasks
    form = msgspec.json.decode(msgspec.json.encode((echo.s(value) | echo.s()).to_dict(), enc_hook=to_plain))
    check(kind, ran(app, app.canvas_of(form).submit()))


def test_a_call_from_within_a_task_and_a_replacement(app: Stem, kind: str, tasks: Tasks) -> None:
    value, (echo, _) = VALUES[kind][1], tasks

    def outer(ctx: TaskContext, value: Any) -> Any:
        check(kind, value)
        ctx.enqueue(echo.options(id=f"inner-{kind}"), value)
        ctx.replace(echo.s(value))

    outer.__annotations__ = {"ctx": TaskContext, "value": VALUES[kind][0], "return": VALUES[kind][0]}
    check(kind, ran(app, app.task(name=f"outer.{kind}")(outer).enqueue(value)))
    check(kind, app.handle(f"inner-{kind}").get(5))


def test_a_default_and_further_named_arguments(app: Stem, kind: str) -> None:
    hint, value = VALUES[kind]

    def work(one: Any = value, **rest: Any) -> Any:
        check(kind, one)
        check(kind, rest["other"])
        return one

    work.__annotations__ = {"one": hint, "rest": hint, "return": hint}
    check(kind, ran(app, app.task(name=f"default.{kind}")(work).enqueue(other=value)))


def test_a_worker_of_its_own_and_the_command_line_agree(tmp_path: Path) -> None:
    """Each value crosses two processes and the store's file; three are sent by `stem enqueue`."""
    path, url = "support.worker_apps.typed:app", f"sqlite:///{tmp_path}/stem.db"
    with worker_here(url, "typed", path, concurrency=1), Stem(url, namespace="typed", max_retries=0) as app:
        echoes = {kind: echo_of(kind, app) for kind in VALUES}
        handles = {kind: echo.enqueue(VALUES[kind][1]) for kind, echo in echoes.items()}
        for kind, handle in handles.items():
            check(kind, handle.get(30))
        for kind in ("datetime", "nested-dataclass", "nested-model"):
            arguments = msgspec.json.encode({"value": VALUES[kind][1]}, enc_hook=to_plain).decode()
            words = ["enqueue", f"echo.{kind}", "--args", arguments, "--app", path, "--id", f"cli-{kind}"]
            done = subprocess.run(
                [sys.executable, "-m", "stem", *words], env=environment(url, "typed"), capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
            check(kind, app.handle(f"cli-{kind}").get(30))
