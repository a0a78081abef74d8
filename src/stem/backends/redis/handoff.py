"""Register a waiting worker on Redis. A push asks the server whether the worker's channel has a subscriber."""

import secrets

import msgspec

from stem.backends.handoff import REGISTRATION_SECONDS, UNHEARD_SECONDS, Handoff, Registration
from stem.backends.redis.codec import stored_task
from stem.backends.redis.codec.claimed import read_claimed
from stem.backends.redis.namespace import RedisNamespace, microseconds


class RedisHandoff(Handoff):
    def __init__(self, namespace: RedisNamespace) -> None:
        self._namespace = namespace
        super().__init__()

    def _reset(self) -> None:
        super()._reset()
        self._number = secrets.randbits(48)

    @property
    def channel(self) -> str:
        return f"seat:{self._number}"

    def register(self, queues: list[str], room: int, lease_seconds: float, withdrawals: int, within: float) -> int:
        """Register for `room` tasks and fetch what was handed over unheard.

        Returns the microseconds until a claim may find something: 0 for now, -1 if nothing waits. Does nothing if the wait was
        called off meanwhile.
        """
        with self._calling:
            if self.withdrawals != withdrawals:
                return 0
            room = 0 if self._is_stopped else max(0, room - len(self._handed))
            due, oldest = self._call(queues, room, lease_seconds, within)
            if oldest > microseconds(UNHEARD_SECONDS):
                self._namespace.subscribers.disconnect_stale()
            return 0 if self.has_deliveries else due

    def receive(self, packed: bytes) -> bool:
        """Accept a notification. False if its task was fetched before, or it is none of ours."""
        try:
            delivery = stored_task.delivery(packed, iter(()))
        except (msgspec.MsgspecError, ValueError):  # anybody can publish anything; what was handed over is fetched
            return False
        if self._handed.was_fetched(delivery.lease.id):
            return False
        self._receive(delivery)
        return True

    def _withdraw(self, registration: Registration, seconds: float) -> None:
        self._call(registration.queues, 0, registration.lease_seconds, seconds)

    def _call(self, queues: list[str], room: int, lease_seconds: float, within: float) -> tuple[int, int]:
        acknowledged = self._handed.received
        given = {
            "number": str(self._number),
            "queues": queues,
            "room": room,
            "lease": microseconds(lease_seconds),
            "life": microseconds(REGISTRATION_SECONDS),
            "received": acknowledged,
        }
        due, packed, oldest = self._namespace.run("handoff_register", given, within=within)
        self._handed.reconcile(acknowledged, read_claimed(self._namespace, packed, iter(())))
        free = room - len(packed)
        self._registration = Registration.from_now(self._number, queues, lease_seconds, free) if room > 0 else None
        return due, oldest
