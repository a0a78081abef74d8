"""A TCP proxy that can hang: it accepts, and answers nothing."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class HangingProxy:
    """Passes bytes on between whoever connects and a server. A connection over which nothing came through once stays silent for
    ever, open, as behind a proxy that has lost its state."""

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._round = 0  # odd while it hangs; a connection serves in the round in which it was accepted
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.accepted_silently = 0
        self._start(self._accept)

    def hang(self) -> None:
        self._round += 1 - self._round % 2

    def go_on(self) -> None:
        """For new connections."""
        self._round += self._round % 2

    def close(self) -> None:
        self._round = -1
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                if self._round % 2:
                    self.accepted_silently += 1
                    continue
                server = self._connect()
                self._sockets.append(server)
                for source, target in ((client, server), (server, client)):
                    self._start(self._pass_on, source, target, self._round)

    def _pass_on(self, source: socket.socket, target: socket.socket, round: int) -> None:
        with suppress(OSError):
            while (data := source.recv(65536)) and self._round == round:
                target.sendall(data)
            if self._round == round:  # whoever closes while it hangs is not heard of at the other end
                target.shutdown(socket.SHUT_WR)

    def _start(self, run: Callable[..., None], *given: object) -> None:
        threading.Thread(target=run, args=given, daemon=True).start()
