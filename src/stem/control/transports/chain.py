"""Chains transports: the workers that one does not reach are asked by the next."""

import logging
import time
from collections.abc import Callable, Collection, Sequence

from stem.contracts.steering.control import CommandSender
from stem.core.control import ALL, Command, Reply
from stem.core.errors import StemError, StoreUnavailable, UsageError

log = logging.getLogger("stem.control")

_TURN_SECONDS = 0.05  # how long one transport is waited for before the next one is looked at


class TransportChain(CommandSender):
    """Falls back for workers that a command could not be sent to, never for silent ones: they may have obeyed. A worker
    that gets a command twice obeys it once. `workers` returns the live workers, so that a command to all is chained as well."""

    def __init__(self, transports: Sequence[CommandSender], workers: Callable[[], Collection[str]] = tuple) -> None:
        if not transports:
            raise UsageError("A chain needs at least one transport.")
        self.name = ">".join(each.name for each in transports)
        self._transports = list(transports)
        self._workers = workers
        self._carriers: dict[str, list[CommandSender]] = {}

    def send_command(self, command: Command) -> str:
        left = frozenset(self._workers() if ALL in command.targets else command.targets)
        carriers, reasons = [], []
        for transport in self._transports:
            try:
                left -= _sent(transport, command, left)
            except UsageError:
                raise  # no other transport would accept it
            except StemError as error:
                log.warning(
                    "control.transport_skipped from=%s request=%s: %s", transport.name, command.request_id, error
                )
                reasons.append(f"{transport.name}: {error}")
                continue
            carriers.append(transport)
            if not left:
                break
        if not carriers:
            raise StoreUnavailable(f"No transport takes the command ({'; '.join(reasons)}).")
        self._carriers[command.request_id] = carriers
        return "+".join(each.name for each in carriers)

    def receive_replies(self, request_id: str, timeout_seconds: float) -> list[Reply]:
        carriers = self._carriers.get(request_id, [])
        if len(carriers) == 1:
            return carriers[0].receive_replies(request_id, timeout_seconds)
        end = time.monotonic() + timeout_seconds
        while carriers:
            for carrier in carriers:
                turn_seconds = max(0.0, min(_TURN_SECONDS, end - time.monotonic()))
                if found := carrier.receive_replies(request_id, turn_seconds):
                    return found
            if time.monotonic() >= end:
                break
        return []

    def forget(self, request_id: str) -> None:
        for carrier in self._carriers.pop(request_id, []):
            carrier.forget(request_id)

    def close(self) -> None:
        for transport in self._transports:
            transport.close()


def _sent(transport: CommandSender, command: Command, workers: frozenset[str]) -> frozenset[str]:
    """Those it is on its way to. Where nobody is known to be there, it is sent to all that the transport finds."""
    if workers:
        return transport.reach(command, workers)
    transport.send_command(command)
    return workers
