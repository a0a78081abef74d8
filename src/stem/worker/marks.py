"""Follows the store of revokes: what must not run, what must stop, and which queues are to be left alone."""

import logging
from collections.abc import Sequence

from stem.backends import RevokeStore
from stem.core.delivery import Delivery, Ending
from stem.core.errors import StemError
from stem.core.outcome import Revoked
from stem.core.pause import covers, pause_id
from stem.core.revoke import RevokeRecord
from stem.core.settle import Policy, settle
from stem.worker.held import Held
from stem.worker.revoked import RevokedTasks

log = logging.getLogger("stem.worker")

FOLLOW_SECONDS = 2.0


class Marks:
    """Commands bring news at once; the store is the truth, and is looked at every two seconds in case one was missed."""

    def __init__(self, store: RevokeStore, queues: list[str], worker: str) -> None:
        self._store = store
        self._queues = queues
        self._worker = worker
        self.revoked = RevokedTasks(store.revokes, store.now)
        self.paused: frozenset[str] = frozenset()  # as the store has it

    def hydrate(self) -> None:
        count = self.revoked.hydrate()
        self.paused = self._read_pauses()
        if count:
            log.info("revokes.hydrated marks=%d paused=%s", count, ",".join(sorted(self.paused)) or "-")

    def follow(self) -> bool:
        """True: there may be news for what is held here."""
        has_news = self.revoked.refresh() > 0
        paused = self._read_pauses()
        has_changed, self.paused = paused != self.paused, paused
        return has_news or has_changed

    def prune(self) -> None:
        self.revoked.prune()

    def sort(self, deliveries: list[Delivery]) -> tuple[list[Delivery], list[tuple[Held, Ending]]]:
        """What may run, and the endings of what was revoked before it could begin."""
        is_revoked = self.revoked.is_revoked
        marked = [delivery for delivery in deliveries if is_revoked(delivery.lease.id)] if len(self.revoked) else []
        if not marked:
            return deliveries, []
        try:
            records = self.reasons([delivery.lease.id for delivery in marked])
        except StemError:
            records = {}  # that it is revoked is known; why, the store would have said
        endings = []
        for delivery in marked:
            record = records.get(delivery.lease.id)
            outcome = Revoked(record.reason if record is not None and record.reason else "revoked")
            decided = settle(outcome, Policy(), attempt=delivery.attempt, deaths=delivery.deaths, roll=0.0)
            endings.append((Held(delivery, None), Ending(delivery.lease, decided)))
        ids = {delivery.lease.id for delivery in marked}
        return [delivery for delivery in deliveries if delivery.lease.id not in ids], endings

    def reasons(self, task_ids: Sequence[str]) -> dict[str, RevokeRecord]:
        """The records of those that are revoked."""
        marked = [task_id for task_id in task_ids if self.revoked.is_revoked(task_id)]
        return self._store.revokes.get(marked) if marked else {}

    def apply(self, records: Sequence[RevokeRecord]) -> list[RevokeRecord]:
        """What a command brought that holds: news, what is known already, and what came without a version."""
        self.revoked.apply(record for record in records if record.version)
        return [record for record in records if not record.version or self.revoked.is_revoked(record.task_id)]

    def close(self) -> None:
        self._store.close()

    def _read_pauses(self) -> frozenset[str]:
        found = self._store.revokes.get([pause_id(queue) for queue in self._queues])
        scopes = {queue: found[pause_id(queue)].reason for queue in self._queues if pause_id(queue) in found}
        return frozenset(queue for queue, scope in scopes.items() if covers(scope, self._worker))
