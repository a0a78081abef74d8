"""Receives a worker's commands in one thread per transport, and sends the responder's replies."""

import logging
from collections.abc import Sequence
from threading import Event, Thread

from stem.contracts.steering.control import CommandReceiver
from stem.control.responder import Responder
from stem.core.errors import StemError

log = logging.getLogger("stem.control")

LISTEN_SECONDS = 1.0  # how long stopping may take, because a receiver cannot be woken
RETRY_SECONDS = 1.0  # after a transport failed


class ControlListener:
    """A service: start it before the worker is known to others, and stop it last. It closes its transports.

    `listen_seconds` is how long it may be asleep when it is to stop; closing the transports' store wakes it.
    """

    def __init__(
        self, transports: Sequence[CommandReceiver], responder: Responder, *, listen_seconds: float = LISTEN_SECONDS
    ) -> None:
        self._listen_seconds = listen_seconds
        self._transports = list(transports)
        self._responder = responder
        self._stopped = Event()
        self._threads = [
            Thread(target=self._listen, args=(each,), name=f"control-{each.name}", daemon=True) for each in transports
        ]

    def reached_by(self, namespace: str) -> dict[str, str]:
        """Return what the heartbeat tells callers, so that they find the worker."""
        url = next((each.url for each in self._transports if each.url is not None), None)
        return {"controlNamespace": namespace, **({} if url is None else {"controlUrl": url})}

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop_receiving(self) -> None:
        """Begin no further command."""
        self._stopped.set()

    def stop(self) -> None:
        """No command is obeyed after it returns, unless one is being obeyed for longer than two seconds."""
        self.stop_receiving()
        for transport in self._transports:
            transport.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(2)

    def _listen(self, transport: CommandReceiver) -> None:
        is_down = False
        while not self._stopped.is_set():
            try:
                self._receive(transport)
                is_down = False
            except Exception as error:  # noqa: BLE001 - a worker that receives nothing cannot be controlled; try again
                if not is_down and not self._stopped.is_set():
                    log.warning(
                        "control.transport_down transport=%s: %s No command arrives by it until it is back.",
                        transport.name,
                        error,
                    )
                is_down = True
                self._stopped.wait(RETRY_SECONDS)

    def _receive(self, transport: CommandReceiver) -> None:
        for raw in transport.receive_commands(self._listen_seconds):
            if self._stopped.is_set():
                return
            reply = self._responder.answer(raw)
            if reply is not None:
                try:
                    transport.send_reply(reply)
                except StemError as error:
                    log.warning("control.reply_unsent request=%s: %s", reply.request_id, error)
