"""Pause and resume queues: the scope is written down first, so that it holds for workers that come later, too."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from stem.contracts.locks import Locks
from stem.contracts.revokes import Revokes
from stem.control.caller import TIMEOUT_SECONDS, Answers, Caller
from stem.control.sealing import Trust, sealed
from stem.core.envelope import check_queue
from stem.core.errors import StoreUnavailable
from stem.core.pause import narrowed, pause_id, widened
from stem.core.revoke import RevokeRequest

Verb = Literal["pause", "resume"]

LOCK = "control.pause"
LOCK_SECONDS = 10.0
# A scope that covers nobody is written once more, so that it has a version, and is gone at once; a signed one stays, for
# workers give up a signed pause only for a newer signed word.
GONE_SECONDS = 0.001

_SCOPES: dict[Verb, Callable[[str, Sequence[str]], str]] = {"pause": widened, "resume": narrowed}


@dataclass(frozen=True, slots=True)
class Paused:
    """The scope of each queue as it holds from now on (see core.pause), and what workers said, where any are known."""

    scopes: dict[str, str]
    answers: Answers


@dataclass(frozen=True, slots=True)
class Pausing:
    """`marks` may live elsewhere than the tasks; the lock is the tasks' store's, which every operator reaches."""

    marks: Revokes
    locks: Locks
    caller: Caller
    requester: str = ""

    def pause(
        self, queues: Sequence[str], *, workers: Sequence[str] = (), timeout_seconds: float = TIMEOUT_SECONDS
    ) -> Paused:
        """On these workers, or on all. Durable when it returns, or raises after. Signed where the caller has keys. Raises
        UsageError and ConfigError before anything is written."""
        return self._change("pause", queues, workers, timeout_seconds)

    def resume(
        self, queues: Sequence[str], *, workers: Sequence[str] = (), timeout_seconds: float = TIMEOUT_SECONDS
    ) -> Paused:
        return self._change("resume", queues, workers, timeout_seconds)

    def _change(self, verb: Verb, queues: Sequence[str], workers: Sequence[str], timeout_seconds: float) -> Paused:
        wanted = [check_queue(queue) for queue in dict.fromkeys(queues)]
        with self._alone():
            scopes = self._write(verb, wanted, workers)
        answers = self.caller.ask(verb, {"queues": wanted}, workers=workers, timeout_seconds=timeout_seconds)
        return Paused(scopes, answers)

    def _write(self, verb: Verb, queues: Sequence[str], workers: Sequence[str]) -> dict[str, str]:
        before = self.marks.get([pause_id(queue) for queue in queues])
        trust = Trust(self.caller.keyring, self.caller.tasks_namespace)
        scopes: dict[str, str] = {}
        for queue in queues:
            record = before.get(pause_id(queue))
            # What nobody has signed must not become part of what is signed now.
            held = record.reason if record is not None and trust.counts(record) else ""
            scopes[queue] = _SCOPES[verb](held, workers)
        requests = [self._request(queue, scope) for queue, scope in scopes.items()]
        self.marks.put(sealed(requests, before, self.caller))
        return scopes

    def _request(self, queue: str, scope: str) -> RevokeRequest:
        expires_seconds = None if scope or self.caller.keyring else GONE_SECONDS
        return RevokeRequest(
            task_id=pause_id(queue), reason=scope, requester=self.requester, expires_seconds=expires_seconds
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """A scope is read and then written: two operators at once would undo what the other did."""
        owner = f"{os.getpid()}-{os.urandom(4).hex()}"
        end = time.monotonic() + 2 * LOCK_SECONDS
        while self.locks.acquire(LOCK, owner=owner, ttl_seconds=LOCK_SECONDS) is None:
            if time.monotonic() > end:
                raise StoreUnavailable("Somebody else is changing which queues are paused; try again.")
            time.sleep(0.02)
        try:
            yield
        finally:
            self.locks.release(LOCK, owner=owner)
