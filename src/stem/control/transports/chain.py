"""Several transports, tried in order until one takes the command."""

import logging
from collections.abc import Sequence

from stem.contracts.control import AskingSide
from stem.core.control import Command, Reply
from stem.core.errors import StemError, StoreUnavailable, UsageError

log = logging.getLogger("stem.control")


class Chain(AskingSide):
    """Falls back when sending fails, never when workers are silent: they may have obeyed."""

    def __init__(self, transports: Sequence[AskingSide]) -> None:
        if not transports:
            raise UsageError("A chain needs at least one transport.")
        self.name = ">".join(each.name for each in transports)
        self._transports = list(transports)
        self._carriers: dict[str, AskingSide] = {}

    def send_command(self, command: Command) -> str:
        reasons = []
        for transport in self._transports:
            try:
                carrier = transport.send_command(command)
            except UsageError:
                raise  # no other way would make it a better command
            except StemError as error:
                log.warning("control.fallback from=%s request=%s: %s", transport.name, command.request_id, error)
                reasons.append(f"{transport.name}: {error}")
                continue
            self._carriers[command.request_id] = transport
            return carrier
        raise StoreUnavailable(f"No transport takes the command ({'; '.join(reasons)}).")

    def receive_replies(self, request_id: str, timeout_seconds: float) -> list[Reply]:
        carrier = self._carriers.get(request_id)
        return [] if carrier is None else carrier.receive_replies(request_id, timeout_seconds)

    def forget(self, request_id: str) -> None:
        carrier = self._carriers.pop(request_id, None)
        if carrier is not None:
            carrier.forget(request_id)

    def close(self) -> None:
        for transport in self._transports:
            transport.close()
