"""A real Chromium, and a real worker whose store has a little of everything."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from stem import Stem
from support.web.dashboards import ServedDashboard, served
from support.workers.processes import WorkerProcess, worker_process

CHROMIUM = os.environ.get("STEM_TEST_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed; install Debian's package chromium, or set STEM_TEST_CHROMIUM")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def app(tmp_path: Path, namespace: str) -> Iterator[Stem]:
    with Stem(f"sqlite:///{tmp_path}/stem.db", namespace=namespace) as made:
        yield made


@pytest.fixture
def board(app: Stem) -> Iterator[ServedDashboard]:
    with served(app) as found:
        yield found


@pytest.fixture
def worker(app: Stem, tmp_path: Path) -> Iterator[WorkerProcess]:
    options: dict[str, Any] = {"name": "w1", "concurrency": 2, "heartbeat_seconds": 0.5}
    url, namespace = app.settings.broker_url, app.settings.namespace
    with worker_process(url, namespace, "support.worker_apps.plain:app", tmp_path, **options) as started:
        yield started


@pytest.fixture
def page(browser: Browser, board: ServedDashboard) -> Iterator[Page]:
    """Whatever the browser complains about fails the test: an error of a script, or something that the policy refused."""
    context = browser.new_context(base_url=board.url, viewport={"width": 1280, "height": 800})
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda message: problems.append(message.text) if "Content Security" in message.text else None)
    opened.on("dialog", lambda dialog: problems.append(f"a dialog opened: {dialog.message}"))
    yield opened
    context.close()
    assert problems == []
