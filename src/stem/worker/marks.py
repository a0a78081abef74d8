"""Follows the store of revokes: what must not run, what must stop, and which queues are to be left alone."""

import logging
from collections.abc import Mapping, Sequence

from stem.backends import RevokeStore
from stem.control.sealing import Trust
from stem.core.delivery import Delivery, Ending
from stem.core.outcome import Requeue, Revoked
from stem.core.pause import covers, pause_id
from stem.core.revoke import RevokeRecord
from stem.core.settle import Policy, settle
from stem.runtime.summary import SummedLog
from stem.worker.held import Held
from stem.worker.revoked import RevokedTasks

log = logging.getLogger("stem.worker")

FOLLOW_SECONDS = 2.0
UNDECIDED_SECONDS = 1.0  # before a task is claimed again whose revoke could not be verified


class Marks:
    """Commands bring news at once; the store is the truth, and is looked at every two seconds in case one was missed. Where
    keys are set only what is signed counts."""

    def __init__(self, store: RevokeStore, queues: list[str], worker: str, trust: Trust) -> None:
        self._store = store
        self._queues = queues
        self._worker = worker
        self._trust = trust
        self.revoked = RevokedTasks(store.revokes, store.now, trust=trust)
        self.paused: frozenset[str] = frozenset()  # as the store has it
        self._scopes: dict[str, tuple[int, str]] = {}  # of queues, by signed pauses: stamp and scope
        self._summary = SummedLog(log)
        self._told = 0  # how many ignored marks the log knows of

    @property
    def ignored(self) -> int:
        """Revokes and pauses that were not signed as they must be, or older than what is known."""
        return self.revoked.ignored

    def hydrate(self) -> None:
        count = self.revoked.hydrate()
        self.paused = self._read_pauses()
        if count:
            log.info("revokes.loaded count=%d paused_queues=%s", count, ",".join(sorted(self.paused)) or "-")
        self._tell_ignored()

    def follow(self) -> bool:
        """True: there may be news for what is held here."""
        has_news = self.revoked.refresh() > 0
        paused = self._read_pauses()
        has_changed, self.paused = paused != self.paused, paused
        self._tell_ignored()
        return has_news or has_changed

    def prune(self) -> None:
        self.revoked.prune()

    def sort(self, deliveries: list[Delivery]) -> tuple[list[Delivery], list[tuple[Held, Ending]]]:
        """What may run, and the endings of what was revoked before it could begin."""
        if not len(self.revoked):
            return deliveries, []
        try:
            self.revoked.verify(delivery.lease.id for delivery in deliveries)
        except Exception:  # noqa: BLE001 - whatever it is, the task is in doubt, and the fetcher goes on
            return self._without_undecided(deliveries)
        return self._without_revoked(deliveries)

    def _without_revoked(self, deliveries: list[Delivery]) -> tuple[list[Delivery], list[tuple[Held, Ending]]]:
        is_revoked = self.revoked.is_revoked
        marked = [delivery for delivery in deliveries if is_revoked(delivery.lease.id)]
        if not marked:
            return deliveries, []
        try:
            records = self.reasons([delivery.lease.id for delivery in marked])
        except Exception:  # noqa: BLE001 - as above
            records = {}  # that it is revoked is known; why, the store would have said
        endings = []
        for delivery in marked:
            record = records.get(delivery.lease.id)
            outcome = Revoked(record.reason if record is not None and record.reason else "revoked")
            decided = settle(outcome, Policy(), attempt=delivery.attempt, deaths=delivery.deaths, roll=0.0)
            endings.append((Held(delivery, None), Ending(delivery.lease, decided)))
        ids = {delivery.lease.id for delivery in marked}
        return [delivery for delivery in deliveries if delivery.lease.id not in ids], endings

    def _without_undecided(self, deliveries: list[Delivery]) -> tuple[list[Delivery], list[tuple[Held, Ending]]]:
        """Neither run nor cancelled in doubt: what could not be verified goes back."""
        undecided = [delivery for delivery in deliveries if self.revoked.is_unverified(delivery.lease.id)]
        ids = {delivery.lease.id for delivery in undecided}
        rest, endings = self._without_revoked([each for each in deliveries if each.lease.id not in ids])
        back = Requeue(delay_seconds=UNDECIDED_SECONDS, reason="its revoke could not be verified")
        return rest, [*endings, *((Held(each, None), Ending(each.lease, back)) for each in undecided)]

    def reasons(self, task_ids: Sequence[str]) -> dict[str, RevokeRecord]:
        """The records of those that are revoked, as far as they count."""
        marked = [task_id for task_id in task_ids if self.revoked.is_revoked(task_id)]
        found = self._store.revokes.get(marked) if marked else {}
        return {task_id: record for task_id, record in found.items() if self._trust.counts(record)}

    def apply(self, records: Sequence[RevokeRecord]) -> list[RevokeRecord]:
        """What a command brought that holds: news, what is known already, and what came without a version."""
        self.revoked.apply(record for record in records if record.version)
        return [record for record in records if not record.version or self.revoked.is_revoked(record.task_id)]

    def close(self) -> None:
        self._store.close()

    def _read_pauses(self) -> frozenset[str]:
        found = self._store.revokes.get([pause_id(queue) for queue in self._queues])
        scopes = self._signed_scopes(found) if self._trust else {id: record.reason for id, record in found.items()}
        return frozenset(queue for queue in self._queues if covers(scopes.get(pause_id(queue), ""), self._worker))

    def _signed_scopes(self, found: Mapping[str, RevokeRecord]) -> dict[str, str]:
        """By pause id. A signed pause holds until a newer signed one or a signed resume: not when it is gone or replaced."""
        for id, record in found.items():
            seal = self._trust.seal_of(record)
            if seal is not None and seal.stamp >= self._scopes.get(id, (0, ""))[0]:
                self._scopes[id] = seal.stamp, record.reason
        return {id: scope for id, (_, scope) in self._scopes.items()}

    def _tell_ignored(self) -> None:
        if fresh := self.ignored - self._told:
            self._told += fresh
            self._summary.warning(
                "revokes.ignored: a revoke or pause is not signed with one of the control keys", fresh
            )
        else:
            self._summary.flush()
