"""Limit how often a peer may try to log in."""

import time
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from threading import Lock

TRIES = 5
ALL_TRIES = 60  # by all peers together
WINDOW_SECONDS = 60.0
MOST_PEERS = 10_000


class LoginAttempts:
    """Counts failures in a sliding window. All addresses of one IPv6 /64 are one peer."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._lock = Lock()

    def wait_seconds(self, address: str) -> float:
        """How long the peer has to wait before it may try again; 0: not at all."""
        with self._lock:
            now = time.monotonic()
            return max(self._left(_peer(address), TRIES, now), self._left("", ALL_TRIES, now))

    def failed(self, address: str) -> None:
        with self._lock:
            now = time.monotonic()
            for peer in (_peer(address), ""):
                recent = [at for at in self._failures.pop(peer, []) if now - at < WINDOW_SECONDS]
                self._failures[peer] = [*recent, now][-ALL_TRIES:]
            while len(self._failures) > MOST_PEERS:
                self._failures.popitem(last=False)

    def _left(self, peer: str, most: int, now: float) -> float:
        recent = [at for at in self._failures.get(peer, []) if now - at < WINDOW_SECONDS]
        return 0.0 if len(recent) < most else WINDOW_SECONDS - (now - recent[-most])


def _peer(address: str) -> str:
    try:
        found = ip_address(address)
    except ValueError:
        return address
    return found.exploded[:19] if isinstance(found, IPv6Address) else address
