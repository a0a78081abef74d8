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
    """Counts attempts in a sliding window; those that succeed are given back. All addresses of one IPv6 /64 are one peer."""

    def __init__(self) -> None:
        self._taken: OrderedDict[str, list[float]] = OrderedDict()
        self._lock = Lock()

    def take(self, address: str) -> float:
        """Count an attempt before it is made, so that many at once are not more. Returns how long the peer has to wait
        instead; 0: not at all."""
        with self._lock:
            now = time.monotonic()
            wait = max(self._left(_peer(address), TRIES, now), self._left("", ALL_TRIES, now))
            if wait > 0:
                return wait
            for peer in (_peer(address), ""):
                recent = [at for at in self._taken.pop(peer, []) if now - at < WINDOW_SECONDS]
                self._taken[peer] = [*recent, now]
            while len(self._taken) > MOST_PEERS:
                self._taken.popitem(last=False)
            return 0.0

    def give_back(self, address: str) -> None:
        """The newest attempt of the peer was no wrong guess."""
        with self._lock:
            for peer in (_peer(address), ""):
                if taken := self._taken.get(peer):
                    taken.pop()

    def _left(self, peer: str, most: int, now: float) -> float:
        recent = [at for at in self._taken.get(peer, []) if now - at < WINDOW_SECONDS]
        return 0.0 if len(recent) < most else WINDOW_SECONDS - (now - recent[-most])


def _peer(address: str) -> str:
    try:
        found = ip_address(address)
    except ValueError:
        return address
    return found.exploded[:19] if isinstance(found, IPv6Address) else address
