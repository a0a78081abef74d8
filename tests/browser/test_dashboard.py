"""The dashboard in a real Chromium: pages, buttons, hostile text, accessibility."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from stem import Stem
from stem.core.lifecycle import State
from stem.dashboard.navigation import NAVIGATION
from stem.observe.dead_letters import letters
from support.builders import a_push, dead
from support.client.canvases import settle_all, submitted
from support.until import until
from support.web.dashboards import ServedDashboard, furnish
from support.workers.processes import WorkerProcess

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
DETAILS = ("/tasks/t-failed", "/tasks/t-running", "/queues/default", "/workers/w1", "/tasks/bulk?verb=replay")
PATHS = [*(item.path for item in NAVIGATION), *DETAILS]


def state(app: Stem, task_id: str) -> State:
    return app.store.results.get([task_id])[task_id].state


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 380])
def test_every_page_fits_and_axe_finds_nothing_serious(app: Stem, page: Page, scheme: str, width: int) -> None:
    furnish(app)
    count_some(app)
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": width, "height": 800})
    for path in PATHS:
        page.goto(path)
        expect(page.locator("h1")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        page.evaluate(AXE.read_text())
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [
            (each["id"], each["nodes"][0]["html"])
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert serious == [], (path, serious)


def test_pages_without_data_say_what_to_do(page: Page) -> None:
    for item in NAVIGATION:
        page.goto(item.path)
        expect(page.locator("h1")).to_have_text(item.title)
    page.goto("/workers")
    expect(page.locator(".empty")).to_contain_text("stem worker start")


def test_terminate_stops_a_running_task_and_the_page_says_so_by_itself(
    app: Stem, page: Page, worker: WorkerProcess, tmp_path: Path
) -> None:
    task = app.enqueue("hold", {"file": str(tmp_path / "m"), "until": str(tmp_path / "never")}, check=False)
    until(lambda: state(app, task.id) is State.RUNNING)
    page.goto(f"/tasks/{task.id}")
    page.get_by_role("button", name="Terminate").click()
    page.get_by_role("button", name="Leave it").click()
    assert state(app, task.id) is State.RUNNING
    page.get_by_role("button", name="Terminate").click()
    page.get_by_role("button", name="Do it").click()
    expect(page.locator("main")).to_contain_text("Revoked, and stopped where it runs")
    until(lambda: state(app, task.id) is State.CANCELLED)
    expect(page.locator(".sub .state")).to_have_text("cancelled", timeout=20_000)


def test_a_bulk_replay_of_a_filter_replays_exactly_its_matches(app: Stem, page: Page) -> None:
    for i, name in enumerate(["shop.pay"] * 3 + ["shop.mail"] * 2):
        app.store.broker.push([a_push(f"t{i}", name=name)])
        (delivery,) = app.store.broker.claim(["default"], limit=1, lease_seconds=60)
        app.store.broker.settle([dead(delivery)], worker="w")
    page.goto("/tasks")
    page.get_by_label("Name").fill("shop.pay")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="Replay…").click()
    page.get_by_role("button", name="Replay 3").click()
    expect(page.locator("main")).to_contain_text("Replayed 3 of 3")
    assert {each for group in letters(app.store).groups for each in group.ids} == {"t3", "t4"}


def test_hostile_text_does_not_run(app: Stem, page: Page, board: ServedDashboard) -> None:
    text = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    furnish(app, text)
    page.goto("/events")
    expect(page.locator("[data-live]")).to_be_visible()
    app.store.broker.push([a_push("live", args={"x": text})])
    expect(page.locator("#events")).to_contain_text("live")
    for path in PATHS:
        page.goto(path)
        page.wait_for_load_state("load")
        assert page.title().endswith("· Stem"), path
        assert page.locator("main img").count() == 0, path


def test_a_queue_is_purged_after_the_question(app: Stem, page: Page) -> None:
    app.store.broker.push([a_push(f"t{i}", queue="mail") for i in range(3)])
    page.goto("/queues")
    page.get_by_role("button", name="Purge mail").click()
    expect(page.locator("dialog")).to_contain_text("Cancel everything that waits in mail? That is 3 now.")
    page.get_by_role("button", name="Do it").click()
    expect(page.locator("main")).to_contain_text("Cancelled 3")


def test_events_come_live_and_wait_while_paused(app: Stem, page: Page) -> None:
    page.goto("/events")
    expect(page.locator("[data-live]")).to_be_visible()
    app.store.broker.push([a_push("first")])
    expect(page.locator("#events")).to_contain_text("first")
    page.get_by_role("button", name="Pause").click()
    app.store.broker.push([a_push("second")])
    expect(page.locator("[data-events-count]")).to_have_text("1 new")
    expect(page.locator("#events")).not_to_contain_text("second")
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#events")).to_contain_text("second")


def test_keys_lead_to_pages_and_focus_can_be_seen(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(page.locator("h1")).to_have_text("Queues")
    page.wait_for_load_state()  # the scripts have run: none of them may move the point from which Tab starts
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    width = page.evaluate("getComputedStyle(document.querySelector('.skip')).outlineWidth")
    assert width == "2px"


@pytest.mark.parametrize(
    ("path", "role", "name"), [("/queues", "button", "Pause mail"), ("/tasks", "link", "t-failed")]
)
def test_a_live_page_keeps_the_focus_when_it_refreshes(app: Stem, page: Page, path: str, role: str, name: str) -> None:
    furnish(app)
    app.store.broker.push([a_push("before", queue="mail")])
    page.goto(path)
    focused = page.get_by_role("button" if role == "button" else "link", name=name).first
    focused.focus()
    focused.evaluate("element => element.dataset.old = 'yes'")
    app.store.broker.push([a_push("after", queue="mail")])
    expect(page.locator("[data-old]")).to_have_count(0, timeout=10_000)  # before the page asks by itself
    expect(focused).to_be_focused()


def test_a_narrow_page_shows_where_it_is_in_the_navigation(page: Page) -> None:
    page.set_viewport_size({"width": 380, "height": 800})
    page.goto(NAVIGATION[-1].path)
    expect(page.locator("nav [aria-current]")).to_be_in_viewport(ratio=1)
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()


def test_the_theme_is_switched_and_remembered(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/")
    before = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.get_by_role("button", name="Theme").click()
    page.reload()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != before


@pytest.mark.parametrize("width", [1280, 380])
def test_a_failed_canvas_is_resumed_and_its_page_follows_by_itself(app: Stem, page: Page, width: int) -> None:
    handle = submitted(app, "orders.fetch", ["orders.clean", "orders.check"], "reports.send", name="nightly")
    settle_all(app, failing=["orders.check"])
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/canvases")
    page.get_by_role("link", name="nightly").click()
    expect(page.locator(".failures")).to_contain_text("orders.check")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [each["id"] for each in found["violations"] if each["impact"] in ("serious", "critical")] == []
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Do it").click()
    expect(page.locator("#notice")).to_contain_text("Replayed 1 task")
    page.reload()
    expect(page.locator("[data-live]")).to_be_attached()
    settle_all(app)
    expect(page.locator(".sub .state")).to_have_text("succeeded", timeout=20_000)
    assert handle.status().state is State.SUCCEEDED


def count_some(app: Stem) -> None:
    from datetime import UTC, datetime, timedelta

    from stem.contracts.rollups import Measures, MinuteRow

    now = datetime.fromtimestamp(app.store.upkeep.now() // 60 * 60, UTC)
    app.store.rollups.put(
        MinuteRow(
            minute=now - timedelta(minutes=i),
            name="shop.pay",
            queue="default",
            worker="w1",
            measures=Measures({"succeeded": 50 + i, "failed": i % 7}, {}, {"run": {i - 40: 5}, "wait": {-20: 5}}),
        )
        for i in range(50)
    )
