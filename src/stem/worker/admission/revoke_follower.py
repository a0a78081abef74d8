"""Follow the revoke store: which tasks must not run or must stop, and which queues are paused."""

import logging
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from stem.client.stores import RevokeStore
from stem.control.sealing import Trust
from stem.core.decisions.settle import Policy, settle
from stem.core.delivery import Delivery, Ending
from stem.core.outcome import Requeue, Revoked
from stem.core.pause import SignedScope, covers, pause_id
from stem.core.revoke import RevokeRecord
from stem.runtime.summed_log import SummedLog
from stem.worker.admission.revoke_cache import RevokeCache
from stem.worker.pool.in_flight import InFlightTask

log = logging.getLogger("stem.worker")

FOLLOW_SECONDS = 2.0
UNVERIFIED_SECONDS = 1.0  # before a task is claimed again whose revoke could not be verified


class RevokeFollower:
    """Commands bring changes at once; the store is authoritative and is read every two seconds in case one was missed. Where
    keys are set, only signed records count."""

    def __init__(self, store: RevokeStore, queues: list[str], worker: str, trust: Trust) -> None:
        self._store = store
        self._queues = queues
        self._worker = worker
        self._trust = trust
        self.revoked = RevokeCache(store.revokes, store.now, trust=trust)
        self.paused: frozenset[str] = frozenset()  # as the store has it
        self._scopes: dict[str, SignedScope] = {}  # by pause id, of signed pauses
        self._scopes_lock = Lock()
        self._summary = SummedLog(log)
        self._logged = 0  # how many ignored records were logged

    @property
    def ignored(self) -> int:
        """Revokes and pauses that were not signed as they must be, or older than what is known."""
        return self.revoked.ignored

    def load(self) -> None:
        count = self.revoked.load()
        self.paused = self._read_pauses()
        if count:
            log.info("revokes.loaded count=%d paused_queues=%s", count, ",".join(sorted(self.paused)) or "-")
        self._log_ignored()

    def refresh(self) -> bool:
        """Read the store. True if something changed that may concern tasks in flight."""
        has_news = self.revoked.refresh() > 0
        paused = self._read_pauses()
        has_changed, self.paused = paused != self.paused, paused
        self._log_ignored()
        return has_news or has_changed

    def prune(self) -> None:
        self.revoked.prune()

    def admit(self, deliveries: list[Delivery]) -> tuple[list[Delivery], list[tuple[InFlightTask, Ending]]]:
        """Split into deliveries that may run and the endings of revoked ones."""
        if not len(self.revoked):
            return deliveries, []
        try:
            self.revoked.verify(delivery.lease.id for delivery in deliveries)
        except Exception:  # noqa: BLE001 - whatever it is, the task is in doubt, and the fetcher goes on
            return self._without_unverified(deliveries)
        return self._without_revoked(deliveries)

    def _without_revoked(self, deliveries: list[Delivery]) -> tuple[list[Delivery], list[tuple[InFlightTask, Ending]]]:
        is_revoked = self.revoked.is_revoked
        revoked = [delivery for delivery in deliveries if is_revoked(delivery.lease.id)]
        if not revoked:
            return deliveries, []
        try:
            records = self.records_for([delivery.lease.id for delivery in revoked])
        except Exception:  # noqa: BLE001 - as above
            records = {}  # known to be revoked; only the reason is missing
        endings = []
        for delivery in revoked:
            record = records.get(delivery.lease.id)
            outcome = Revoked(record.reason if record is not None and record.reason else "revoked")
            decided = settle(outcome, Policy(), attempt=delivery.attempt, deaths=delivery.deaths, random_fraction=0.0)
            endings.append((InFlightTask(delivery, None), Ending(delivery.lease, decided)))
        ids = {delivery.lease.id for delivery in revoked}
        return [delivery for delivery in deliveries if delivery.lease.id not in ids], endings

    def _without_unverified(
        self, deliveries: list[Delivery]
    ) -> tuple[list[Delivery], list[tuple[InFlightTask, Ending]]]:
        """Requeue what could not be verified: in doubt a task is neither run nor cancelled."""
        unverified = [delivery for delivery in deliveries if self.revoked.is_unverified(delivery.lease.id)]
        ids = {delivery.lease.id for delivery in unverified}
        rest, endings = self._without_revoked([each for each in deliveries if each.lease.id not in ids])
        back = Requeue(delay_seconds=UNVERIFIED_SECONDS, reason="its revoke could not be verified")
        return rest, [*endings, *((InFlightTask(each, None), Ending(each.lease, back)) for each in unverified)]

    def records_for(self, task_ids: Sequence[str]) -> dict[str, RevokeRecord]:
        """The valid revoke records of these tasks."""
        revoked = [task_id for task_id in task_ids if self.revoked.is_revoked(task_id)]
        found = self._store.revokes.get(revoked) if revoked else {}
        return {task_id: record for task_id, record in found.items() if self.revoked.is_current(record)}

    def apply(self, records: Sequence[RevokeRecord]) -> list[RevokeRecord]:
        """Apply the records of a command; returns those that hold: new, already known, or without a version."""
        self.revoked.apply(record for record in records if record.version)
        return [record for record in records if not record.version or self.revoked.is_revoked(record.task_id)]

    def note_pauses(self, scopes: Mapping[str, SignedScope]) -> None:
        """What a signed command has written to the store, by queue: somebody may have put an older record in its place."""
        if self._trust:
            self._note_newest({pause_id(queue): each for queue, each in scopes.items() if queue in self._queues})

    def signed_pause(self, queue: str) -> dict[str, Any]:
        """The newest signed pause or resume of the queue that is known here, so that operators can tell an older one."""
        stamp, scope = self._scopes.get(pause_id(queue), (0, ""))
        return {"pauseStamp": stamp, "pauseScope": scope} if stamp else {}

    def close(self) -> None:
        self._store.close()

    def _read_pauses(self) -> frozenset[str]:
        found = self._store.revokes.get([pause_id(queue) for queue in self._queues])
        scopes = self._signed_scopes(found) if self._trust else {id: record.reason for id, record in found.items()}
        return frozenset(queue for queue in self._queues if covers(scopes.get(pause_id(queue), ""), self._worker))

    def _signed_scopes(self, found: Mapping[str, RevokeRecord]) -> dict[str, str]:
        """By pause id. A signed pause holds until a newer signed one or a signed resume: not when it is gone or replaced."""
        seals = {id: self._trust.seal_of(record) for id, record in found.items()}
        self._note_newest({id: (seal.stamp, found[id].reason) for id, seal in seals.items() if seal is not None})
        return {id: scope for id, (_, scope) in self._scopes.items()}

    def _note_newest(self, scopes: Mapping[str, SignedScope]) -> None:
        with self._scopes_lock:
            for id, signed in scopes.items():
                if signed[0] > self._scopes.get(id, (0, ""))[0]:
                    self._scopes[id] = signed

    def _log_ignored(self) -> None:
        if fresh := self.ignored - self._logged:
            self._logged += fresh
            self._summary.warning(
                "revokes.ignored: a revoke or pause is not signed with one of the control keys", fresh
            )
        else:
            self._summary.flush()
