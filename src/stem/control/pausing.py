"""Pauses and resumes queues: stores the scope first, so that it also holds for workers that start later."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from stem.contracts.locks import Locks
from stem.contracts.steering.revokes import Revokes
from stem.control.caller import TIMEOUT_SECONDS, Answers, Caller
from stem.control.command_session import CommandSession
from stem.control.sealing import Trust, sealed
from stem.core.control import Reply
from stem.core.envelope import check_queue
from stem.core.errors import StoreUnavailable
from stem.core.pause import SignedScope, narrowed, pause_id, widened
from stem.core.revoke import RevokeRecord, RevokeRequest, read_seal

Verb = Literal["pause", "resume"]

LOCK = "control.pause"
LOCK_SECONDS = 10.0
KNOWN_SECONDS = 2.0  # to ask workers which pauses they know, while the lock is held
# A scope that covers nobody is written once more, so that it has a version, and is gone at once; a signed one stays, for
# workers give up a signed pause only for a newer signed word.
GONE_SECONDS = 0.001

_SCOPES: dict[Verb, Callable[[str, Sequence[str]], str]] = {"pause": widened, "resume": narrowed}


@dataclass(frozen=True, slots=True)
class Paused:
    """The scope of each queue as it holds from now on (see core.pause), and what workers said, where any are known."""

    scopes: dict[str, str]
    answers: Answers


def change_pauses(session: CommandSession, revokes: Revokes, verb: Verb, queues: Sequence[str]) -> Paused:
    """Pause or resume queues on the workers that are asked; see `Pausing`."""
    pausing = Pausing(revokes, session.store.locks, session.caller, session.requester)
    change = pausing.pause if verb == "pause" else pausing.resume
    return change(queues, workers=session.workers, timeout_seconds=session.timeout_seconds)


@dataclass(frozen=True, slots=True)
class Pausing:
    """`revokes` may live elsewhere than the tasks; the lock is the tasks' store's, which every operator reaches."""

    revokes: Revokes
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
            scopes, signed = self._write(verb, wanted, workers)
        payload = {"queues": wanted, "signed": signed} if signed else {"queues": wanted}
        answers = self.caller.ask(verb, payload, workers=workers, timeout_seconds=timeout_seconds)
        return Paused(scopes, answers)

    def _write(
        self, verb: Verb, queues: Sequence[str], workers: Sequence[str]
    ) -> tuple[dict[str, str], dict[str, SignedScope]]:
        """The scope of each queue, and those that were signed with their stamps."""
        before = self.revokes.get([pause_id(queue) for queue in queues])
        held = self._signed_scopes(before, workers) if self.caller.keyring else _reasons(before)
        scopes = {queue: _SCOPES[verb](held.get(pause_id(queue), ""), workers) for queue in queues}
        requests = sealed([self._request(queue, scope) for queue, scope in scopes.items()], before, self.caller)
        self.revokes.put(requests)
        seals = {queue: read_seal(request.seal) for queue, request in zip(scopes, requests, strict=True)}
        return scopes, {queue: (seal.stamp, scopes[queue]) for queue, seal in seals.items() if seal is not None}

    def _signed_scopes(self, before: Mapping[str, RevokeRecord], workers: Sequence[str]) -> dict[str, str]:
        """By pause id, what may become part of what is signed now. What nobody has signed may not; nor an old record that
        somebody has put back, or the lack of one that was removed: workers know the newest that they have seen."""
        trust = Trust(self.caller.keyring, self.caller.tasks_namespace)
        seals = {id: trust.seal_of(record) for id, record in before.items()}
        newest = {id: (seal.stamp, before[id].reason) for id, seal in seals.items() if seal is not None}
        if workers:  # else the new scope says all, whatever the old one was
            answers = self.caller.ask("queue-status", timeout_seconds=KNOWN_SECONDS)
            for reply in answers.replies.values():
                for id, known in _pauses_known_to(reply).items():
                    newest[id] = max(newest.get(id, known), known)
        return {id: scope for id, (_, scope) in newest.items()}

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


def _pauses_known_to(reply: Reply) -> dict[str, SignedScope]:
    """What a worker knows of signed pauses, by pause id: stamp and scope. A worker of another version says nothing of it."""
    queues = reply.payload.get("queues") if reply.status == "ok" else None
    found: dict[str, SignedScope] = {}
    for queue, told in queues.items() if isinstance(queues, dict) else ():
        stamp, scope = (told.get("pauseStamp"), told.get("pauseScope")) if isinstance(told, dict) else (None, None)
        if isinstance(stamp, int) and isinstance(scope, str):
            found[pause_id(queue)] = stamp, scope
    return found


def _reasons(records: Mapping[str, RevokeRecord]) -> dict[str, str]:
    return {id: record.reason for id, record in records.items()}
