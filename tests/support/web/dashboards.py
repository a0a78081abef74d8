"""A real dashboard on loopback for tests, a client for it, and a store that has something of everything."""

import http.client
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import Any
from urllib.parse import urlencode

from uvicorn import Config, Server

from stem import Stem
from stem.contracts.schedules import ScheduleEntry
from stem.core.delivery import Ending, Lease
from stem.core.heartbeat import Heartbeat
from stem.core.outcome import Cancelled, Dead, Done, Retry, Settlement
from stem.core.record import TaskError
from stem.dashboard import Access
from stem.dashboard.application import Dashboard, dashboard
from stem.dashboard.server import listen
from stem.runtime.keys import Keyring
from stem.scheduler.entries import EntryWriter
from support.builders import a_push
from support.until import until

OURS = {"Sec-Fetch-Site": "same-origin"}
PAGE = {"Accept": "text/html"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def words(self) -> str:
        """The text without tags, blanks folded."""
        return " ".join(re.sub(r"<[^>]*>", " ", self.text).split())


class ServedDashboard:
    """`headers` are sent with every request."""

    def __init__(self, port: int, app: Dashboard, prefix: str = "") -> None:
        self.port = port
        self.app = app
        self.prefix = prefix
        self.headers: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, None, {**PAGE, **_named(headers)})

    def post(self, path: str, form: Mapping[str, str] | None = None, **headers: str) -> Answer:
        """As a button of the dashboard does, unless the headers say otherwise."""
        return self.request("POST", path, form or {}, {**OURS, "HX-Request": "true", **_named(headers)})

    def request(self, method: str, path: str, form: Mapping[str, str] | None, headers: Mapping[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            body = None if form is None else urlencode(form)
            sent = {**({} if form is None else {"Content-Type": "application/x-www-form-urlencoded"}), **self.headers}
            connection.request(method, self.prefix + path, body, {**sent, **headers})
            found = connection.getresponse()
            return Answer(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read().decode())
        finally:
            connection.close()


@contextmanager
def served(app: Stem, access: Access | None = None, **more: Any) -> Iterator[ServedDashboard]:
    """The dashboard behind a real uvicorn, on a free port of loopback."""
    made = dashboard(app, access, host="127.0.0.1", **more)
    with serving(made) as port:
        yield ServedDashboard(port, made)


@contextmanager
def serving(app: Any) -> Iterator[int]:
    opened = listen("127.0.0.1", 0)
    server = Server(Config(app, log_config=None, lifespan="off", ws="none", timeout_graceful_shutdown=1))
    thread = Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    thread.start()
    until(lambda: server.started)
    try:
        yield opened.getsockname()[1]
    finally:
        if hasattr(app, "state") and hasattr(app.state, "desk"):
            app.state.desk.feed.close()
        server.should_exit = True
        thread.join(10)
        opened.close()


def furnish(app: Stem, text: str = "plain") -> dict[str, str]:
    """Put one task of each state, a worker, a schedule, a pause and dead letters into the store; ids by state.

    `text` goes wherever the store takes any text.
    """
    store = app.store
    for state in ("succeeded", "failed", "retried", "cancelled", "running"):
        store.broker.push([a_push(f"t-{state}", name="shop.pay", args={"note": text}, meta={"tenant": text})])
        (delivery,) = store.broker.claim(["default"], limit=1, lease_seconds=600)
        _settle(store, delivery.lease, state, text)
    store.broker.push([a_push("t-queued", name="shop.pay", args={"note": text}, headers={"tenant": text})])
    store.broker.push([a_push("t-delayed", name="shop.pay", delay=3600)])
    store.heartbeats.beat(
        Heartbeat(
            worker_id="w1",
            namespace=store.namespace,
            host=text,
            pid=42,
            uptime_seconds=5.0,
            concurrency=2,
            in_flight=1,
            queues=["default", text],
            extras={"state": text, "tasks": {text: ["default", 3]}},
        ),
        ttl_seconds=600,
    )
    entry = ScheduleEntry(id="nightly", task="shop.pay", spec="0 2 * * *", note=text)
    EntryWriter(store, Keyring({})).save(entry, None)
    return {state: f"t-{state}" for state in ("succeeded", "failed", "retried", "cancelled", "running", "queued")}


def _settle(store: Any, lease: Lease, state: str, text: str) -> None:
    import msgspec

    error = TaskError(text[:200], text, f"Traceback: {text}")
    payload = msgspec.Raw(msgspec.json.encode({"said": text}))
    endings: dict[str, Settlement] = {
        "succeeded": Done(payload),
        "failed": Dead("retries-exhausted", error),
        "retried": Retry(3600.0, error),
        "cancelled": Cancelled(text),
    }
    store.broker.start([lease], worker="w1")
    if state in endings:
        store.broker.settle([Ending(lease, endings[state], 0.5)], worker="w1")


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
