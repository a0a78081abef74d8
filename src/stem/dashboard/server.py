"""Serve the dashboard until Ctrl-C."""

import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from stem.core.errors import ConfigError, StemError

if TYPE_CHECKING:
    from starlette.applications import Starlette

STOP_SECONDS = 2


class AddressRefused(StemError):
    """The address is taken, or may not be used."""


def listen(host: str, port: int) -> socket.socket:
    """Raises AddressRefused, ConfigError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"There is no host {host!r} here ({error.strerror}); choose another with --host.") from error
    found = socket.socket(family, kind, protocol)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
        found.listen(64)
    except PermissionError as error:
        found.close()
        raise AddressRefused(
            f"Port {port} may not be used by this user; choose one from 1024 on with --port."
        ) from error
    except OSError as error:
        found.close()
        remedy = "stop what listens there, or choose another with --port"
        if error.errno == errno.EADDRNOTAVAIL:
            remedy = "this machine does not have that address; choose one of its own with --host"
        raise AddressRefused(f"{host}:{port} cannot be used ({error.strerror}); {remedy}.") from error
    return found


def serve(app: "Starlette", opened: socket.socket, *, root_path: str, started: Callable[[], None]) -> None:
    """Return after Ctrl-C or TERM."""
    from uvicorn import Config, Server

    class StreamEndingServer(Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            app.state.desk.feed.close()
            super().handle_exit(sig, frame)

    config = Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        root_path=root_path,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
    started()
    with suppress(KeyboardInterrupt):
        StreamEndingServer(config).run(sockets=[opened])
