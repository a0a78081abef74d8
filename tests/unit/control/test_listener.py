"""A worker's ears hear on, whatever one transport comes to."""

import logging
from queue import Empty, SimpleQueue

import pytest

from stem.contracts.steering.control import CommandReceiver
from stem.control import listener
from stem.control.listener import ControlListener
from stem.control.responder import Responder
from stem.core.control import Reply, encode_command
from stem.core.errors import StoreUnavailable
from stem.runtime.clock import FakeClock
from support.until import until
from support.workers.steerable import Steered, a_command


class Line(CommandReceiver):
    """A transport within the test, which can be cut."""

    name = "line"

    def __init__(self) -> None:
        self.commands: SimpleQueue[bytes] = SimpleQueue()
        self.replies: list[Reply] = []
        self.is_cut = False
        self.has_been_closed = False

    def receive_commands(self, timeout_seconds: float) -> list[bytes]:
        if self.is_cut:
            raise StoreUnavailable("The line is cut.")
        try:
            return [self.commands.get(timeout=timeout_seconds)]
        except Empty:
            return []

    def send_reply(self, reply: Reply) -> None:
        if self.is_cut:
            raise StoreUnavailable("The line is cut.")
        self.replies.append(reply)

    def close(self) -> None:
        self.has_been_closed = True


def ping(line: Line, clock: FakeClock) -> None:
    line.commands.put(encode_command(a_command(clock())))


def test_a_line_that_was_cut_is_heard_again_and_the_cut_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "RETRY_SECONDS", 0.01)
    clock, cut, other, worker = FakeClock(), Line(), Line(), Steered()
    ears = ControlListener([cut, other], Responder(worker, namespace="n", clock=clock), listen_seconds=0.01)
    with caplog.at_level(logging.WARNING, "stem.control"):
        cut.is_cut = True
        ears.start()
        ping(other, clock)
        until(lambda: len(other.replies) == 1)
        until(lambda: caplog.records)
        cut.is_cut = False
        ping(cut, clock)
        until(lambda: len(cut.replies) == 1)
        ears.stop()
    assert [record.getMessage() for record in caplog.records] == [
        "control.transport_down transport=line: The line is cut. No command arrives by it until it is back."
    ]
    assert cut.has_been_closed and other.has_been_closed


def test_a_reply_that_cannot_be_sent_does_not_end_the_listening(caplog: pytest.LogCaptureFixture) -> None:
    class Mute(Line):
        def send_reply(self, reply: Reply) -> None:
            if not self.replies:
                self.replies.append(reply)
                raise StoreUnavailable("Nobody takes it.")
            super().send_reply(reply)

    clock, line = FakeClock(), Mute()
    ears = ControlListener([line], Responder(Steered(), namespace="n", clock=clock))
    ears.start()
    ping(line, clock)
    ping(line, clock)
    until(lambda: len(line.replies) == 2)
    ears.stop()
    assert [record.getMessage().split(" ")[0] for record in caplog.records] == ["control.reply_unsent"]


def test_nothing_is_obeyed_after_it_has_stopped() -> None:
    clock, line, worker = FakeClock(), Line(), Steered()
    ears = ControlListener([line], Responder(worker, namespace="n", clock=clock))
    ears.start()
    ears.stop()
    ping(line, clock)
    until(lambda: not any(thread.is_alive() for thread in ears._threads))
    assert worker.told == []
