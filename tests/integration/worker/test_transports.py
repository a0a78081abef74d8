"""A worker is reached by each of the transports that its settings name, and by the next where one does not take a command."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from stem import Settings, Stem, Worker
from stem.control.caller import Answers, Caller
from stem.control.transport_factory import command_sender
from stem.core.settings.app import ControlSettings
from support.until import until

TOKEN = "open-sesame-and-let-me-in"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Stem]:
    control = ControlSettings(http="127.0.0.1:0", token=TOKEN)
    with Stem(settings=Settings(broker_url=f"sqlite:///{tmp_path}/stem.db", control=control)) as app:
        with Worker(app, in_process=True, name="w1"):
            until(app.store.heartbeats.all)
            yield app


def ping(app: Stem, *transports: str, token: str = TOKEN) -> Answers:
    control = msgspec.structs.replace(app.settings.control, transports=transports, token=token)
    caller = Caller(
        app.store, transport=command_sender(msgspec.structs.replace(app.settings, control=control), app.store)
    )
    try:
        return caller.ask("ping", timeout_seconds=20)
    finally:
        caller.close()


@pytest.mark.parametrize("transport", ["broker", "broadcast", "http"])
def test_a_worker_answers_by_the_transport_that_is_asked_for(app: Stem, transport: str) -> None:
    answers = ping(app, transport)
    assert (answers.transport, answers.replies["w1"].status) == (transport, "ok")


def test_where_the_endpoint_refuses_the_token_the_next_transport_is_taken(app: Stem) -> None:
    answers = ping(app, "http", "broker", token="a-wrong-token-of-some-length")
    assert (answers.transport, answers.replies["w1"].status) == ("broker", "ok")


def test_a_polling_worker_is_reached(tmp_path: Path) -> None:
    control = ControlSettings(transports=("polling",), poll_seconds=0.2)
    with Stem(settings=Settings(broker_url=f"sqlite:///{tmp_path}/stem.db", control=control)) as app:
        with Worker(app, in_process=True, name="w1"):
            until(app.store.heartbeats.all)
            answers = ping(app, "polling")
    assert (answers.transport, answers.replies["w1"].status) == ("polling", "ok")
