"""A worker's ears: one thread a transport, each hearing commands and sending back what the responder says."""

import logging
from collections.abc import Sequence
from threading import Event, Thread

from stem.contracts.control import AnsweringSide
from stem.control.responder import Responder
from stem.core.errors import StemError

log = logging.getLogger("stem.control")

LISTEN_SECONDS = 1.0  # how long stopping may take, for a receiver cannot be woken
DEAF_SECONDS = 1.0  # before a transport that failed is tried again


class Listener:
    """A service: start it before the worker is known to others, and stop it last. It closes its transports.

    `listen_seconds` is how long it may be asleep when it is to stop; closing the transports' store wakes it.
    """

    def __init__(
        self, transports: Sequence[AnsweringSide], responder: Responder, *, listen_seconds: float = LISTEN_SECONDS
    ) -> None:
        self._listen_seconds = listen_seconds
        self._transports = list(transports)
        self._responder = responder
        self._stopped = Event()
        self._threads = [
            Thread(target=self._listen, args=(each,), name=f"control-{each.name}", daemon=True) for each in transports
        ]

    def reached_by(self, namespace: str) -> dict[str, str]:
        """What a heartbeat says, so that askers find the worker."""
        url = next((each.url for each in self._transports if each.url is not None), None)
        return {"controlNamespace": namespace, **({} if url is None else {"controlUrl": url})}

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def hush(self) -> None:
        """No command is begun any more."""
        self._stopped.set()

    def stop(self) -> None:
        """No command is obeyed after it returns, unless one is being obeyed for longer than two seconds."""
        self.hush()
        for transport in self._transports:
            transport.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(2)

    def _listen(self, transport: AnsweringSide) -> None:
        is_deaf = False
        while not self._stopped.is_set():
            try:
                self._hear(transport)
                is_deaf = False
            except Exception as error:  # noqa: BLE001 - a worker that hears nothing cannot be steered; try again
                if not is_deaf and not self._stopped.is_set():
                    log.warning(
                        "control.lost transport=%s: %s No command arrives by it until it is back.",
                        transport.name,
                        error,
                    )
                is_deaf = True
                self._stopped.wait(DEAF_SECONDS)

    def _hear(self, transport: AnsweringSide) -> None:
        for raw in transport.receive_commands(self._listen_seconds):
            if self._stopped.is_set():
                return
            reply = self._responder.answer(raw)
            if reply is not None:
                try:
                    transport.send_reply(reply)
                except StemError as error:
                    log.warning("control.unanswered request=%s: %s", reply.request_id, error)
