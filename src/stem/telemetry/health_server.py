"""Serves probes and metrics over HTTP, from the first moment of a process to its last."""

import logging
from typing import TYPE_CHECKING

from stem.core.errors import ConfigError
from stem.telemetry.probed import Probed

if TYPE_CHECKING:
    import socket

    from stem.control.transports.http_server import HttpServer, Probes

log = logging.getLogger("stem.telemetry")


class HealthServer:
    """Listens when it is made. Raises ConfigError if it cannot, or if the extra `http` is missing."""

    _server: "HttpServer | None"

    def __init__(self, address: str, probed: Probed) -> None:
        try:
            from stem.control.transports.http_server import HttpServer
            from stem.telemetry.health_app import HealthApp
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package == "stem":
                raise
            raise ConfigError(
                f"Health endpoints (--health) need the package {package!r}; pip install 'stem-tasks[http]'."
            ) from error
        self.address = address
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        self._app = HealthApp(probed, host)
        server = HttpServer(self._app, host, int(port), purpose="Health")
        self._server = server
        self._handed_over: socket.socket | None = None
        self.url = server.url
        log.info("health.opened url=%s", self.url)

    def hand_over(self) -> "Probes":
        """Let another server take the address, and answer with the same app."""
        from stem.control.transports.http_server import Probes

        server, self._server = self._server, None
        if server is None:
            raise RuntimeError("the address was handed over before")
        probes = Probes(self._app, server.hand_over())
        self._handed_over = probes.listening
        return probes

    def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        if self._handed_over is not None:
            self._handed_over.close()  # in case nobody has taken it
