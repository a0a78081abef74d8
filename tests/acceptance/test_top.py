"""`stem top`, driven by its keys over a real store with real workers; and as text where there is no terminal."""

import asyncio
import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from acceptance.shell import STEM, Shell
from stem import Stem
from stem.cli.top.dialogs import Confirm, TaskScreen
from stem.cli.top.reading import TopStore
from stem.cli.top.screen import TopApp
from stem.contracts.task_logs import LogLine
from stem.core.lifecycle import EventKind, State
from stem.core.settings.app import Settings
from stem.worker.supervisor import Worker
from support.until import until

Play = Callable[[Pilot[None], TopApp], Coroutine[Any, Any, None]]


@pytest.fixture
def app(tmp_path: Path, namespace: str) -> Iterator[Stem]:
    """One task has succeeded, one has failed, and one waits; a worker serves them."""
    settings = Settings(broker_url=f"sqlite:///{tmp_path}/stem.db", namespace=namespace)
    with Stem(settings=settings, max_retries=0) as opened:
        opened.task(name="good")(lambda: 1)
        bad = opened.task(name="bad")(_fail)
        with Worker(opened, in_process=True, name="alpha"):
            opened.enqueue("good").get(20)
            bad.options(id="failed-one").enqueue().wait(20)
            opened.store.task_logs.append(
                [LogLine(task_id="failed-one", attempt=0, at=1.0, level="info", text="said before it failed")]
            )
            opened.enqueue("other", id="waiting-one", queue="mail", check=False)
            yield opened


def _fail() -> None:
    raise ValueError("boom [bold]\x1b[31m")


def played(app: Stem, play: Play, *, every: float = 0.2, size: tuple[int, int] = (140, 44)) -> None:
    async def run() -> None:
        store = TopStore(app)
        top = TopApp(store, store.read(), every)
        async with top.run_test(size=size) as pilot:
            await play(pilot, top)

    asyncio.run(run())


async def eventually(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    for _ in range(400):
        if condition():
            return
        await pilot.pause(0.025)
    raise AssertionError(f"not true: {condition}")


def column(top: TopApp, table: str, index: int = 0) -> list[str]:
    found = top.screen_stack[0].query_one(f"#{table}", DataTable)
    return [str(found.get_row_at(number)[index]) for number in range(found.row_count)]


def said(top: TopApp) -> str:
    return str(top.screen_stack[0].query_one("#message", Static).content)


def test_everything_is_on_one_screen_and_stays_current(app: Stem) -> None:
    async def play(pilot: Pilot[None], top: TopApp) -> None:
        assert column(top, "queues") == ["default", "mail"]
        assert column(top, "workers") == ["alpha"]
        assert column(top, "failures") == ["failed-one"]
        assert "ValueError: boom [bold]" in column(top, "failures", 3)[0]
        assert "1 dead" in str(top.query_one("#headline", Static).content)
        assert "no worker serves it" in str(top.query_one("#concerns", Static).content)
        app.enqueue("other", id="newer-one", queue="mail", check=False)
        await eventually(pilot, lambda: column(top, "tasks")[0] == "newer-one")

    played(app, play)


def test_a_small_terminal_shows_rows_of_every_table_and_the_keys(app: Stem) -> None:
    for number in range(9):
        app.enqueue(
            "shop.warehouse.inventory.synchronise_with_supplier", id=f"{number}" * 36, queue="mail", check=False
        )

    async def play(pilot: Pilot[None], top: TopApp) -> None:
        await pilot.pause()
        for name, least in {"queues": 2, "workers": 1, "failures": 1, "tasks": 3}.items():
            table = top.query_one(f"#{name}", DataTable)
            assert table.max_scroll_x == 0, f"{name} is wider than the screen"
            assert table.size.height - table.header_height >= least, f"{name} shows too few rows"
        assert column(top, "tasks")[0] == "…" + "8" * 12
        keys = [each.binding.key for each in top.active_bindings.values() if each.binding.show]
        assert {"tab", "enter", "p", "r", "x", "y", "q"} <= set(keys)
        await pilot.resize_terminal(180, 44)
        await eventually(pilot, lambda: column(top, "tasks")[0] == "8" * 36)

    played(app, play, size=(80, 24))


def test_a_queue_is_paused_and_resumed_after_a_question(app: Stem) -> None:
    async def play(pilot: Pilot[None], top: TopApp) -> None:
        await pilot.press("down", "p")
        assert isinstance(top.screen, Confirm)
        await pilot.press("n")
        await pilot.press("p", "y")
        await eventually(pilot, lambda: "paused" in column(top, "queues", 9)[1])
        assert said(top) == "Paused mail."
        await pilot.press("r", "y")
        await eventually(pilot, lambda: "paused" not in column(top, "queues", 9)[1])

    played(app, play)


def test_a_task_is_opened_and_its_dead_letter_replayed(app: Stem) -> None:
    async def play(pilot: Pilot[None], top: TopApp) -> None:
        top.query_one("#failures", DataTable).focus()
        await pilot.press("enter")
        await eventually(pilot, lambda: isinstance(top.screen, TaskScreen))
        shown = str(top.screen.query_one("#detail", Static).content)
        assert "failed-one" in shown and "said before it failed" in shown and "dead-lettered" in shown
        assert "boom [bold]" in shown and "\x1b" not in shown
        await pilot.press("y", "y")
        await eventually(pilot, lambda: said(top) == "Replayed failed-one.")

    played(app, play)
    until(lambda: [e.kind for e in app.store.events.read(None, limit=100)].count(EventKind.REPLAYED) == 1)


def test_a_task_is_revoked(app: Stem) -> None:
    async def play(pilot: Pilot[None], top: TopApp) -> None:
        await pilot.press("x")
        assert "table of tasks" in said(top)
        top.query_one("#tasks", DataTable).focus()
        await pilot.press("x", "y")
        await eventually(pilot, lambda: said(top) == "Revoked waiting-one.")

    played(app, play)
    assert app.handle("waiting-one").status().state is State.CANCELLED


def test_a_store_that_is_away_is_told_of_and_the_screen_lives_on(app: Stem, monkeypatch: pytest.MonkeyPatch) -> None:
    from stem import StoreUnavailable

    async def play(pilot: Pilot[None], top: TopApp) -> None:
        def away(_: object) -> None:
            raise StoreUnavailable("The store is away.")

        with monkeypatch.context() as patched:
            patched.setattr(TopStore, "read", away)
            await eventually(pilot, lambda: "away" in said(top))
        app.enqueue("other", id="newer-one", check=False)
        await eventually(pilot, lambda: column(top, "tasks")[0] == "newer-one")
        assert said(top) == "The store is back."

    played(app, play)


def test_without_a_terminal_it_is_a_snapshot(app: Stem, shell: Shell, namespace: str) -> None:
    there = shell.at(STEM_BROKER_URL=app.settings.broker_url, STEM_NAMESPACE=namespace)
    printed = there.out("top")
    assert "failed-one" in printed and "alpha" in printed and "1 dead" in printed
    assert max(map(len, printed.splitlines())) <= 80, printed
    assert "choose 0.1s or more" in there.refusal("top", "--every", "0s", code=64)
    found = there.json("top")
    assert (found["dead"], found["workers"], found["failures"][0]["id"]) == (1, ["alpha"], "failed-one")


def test_on_a_terminal_it_fills_the_screen_until_q(app: Stem, shell: Shell, namespace: str) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    there = shell.at(STEM_BROKER_URL=app.settings.broker_url, STEM_NAMESPACE=namespace, TERM="xterm-256color")
    process = subprocess.Popen(
        [STEM, "top"], cwd=there.directory, env=there.variables, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    try:
        while b"failed-one" not in seen:
            seen += os.read(ours, 65536)
        os.write(ours, b"q")
        with suppress(OSError):  # the other end is closed
            while os.read(ours, 65536):
                pass
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
