"""Serves probes and metrics over HTTP, from the first moment of a process to its last."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from stem.core.errors import ConfigError
from stem.telemetry.probed import Probed

if TYPE_CHECKING:
    from stem.telemetry.health_app import HealthApp

log = logging.getLogger("stem.telemetry")


class HealthServer:
    """Listens when it is made. Raises ConfigError if it cannot, or if the extra `http` is missing."""

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
        self.app: HealthApp = HealthApp(probed, host)
        server = HttpServer(self.app, host, int(port), purpose="Health")
        self._close: Callable[[], None] | None = server.close
        self.url = server.url
        log.info("health.listening url=%s", self.url)

    def hand_over(self) -> "HealthApp":
        """Stop listening, so that another server can take the address and answer with the same app."""
        self.close()
        return self.app

    def close(self) -> None:
        close, self._close = self._close, None
        if close is not None:
            close()
