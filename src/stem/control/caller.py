"""Sends a command to workers and gathers the reply of each, or that it did not answer."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stem.contracts.steering.control import CommandSender
from stem.contracts.store import Store
from stem.control.health import Health, health
from stem.control.signing import sign, verify_reply
from stem.control.transports.broker import BrokerTransport
from stem.core.control import ALL, MAX_TARGETS, MAX_TIMEOUT_MS, Command, Reply, ReplyError, encode_command, is_worker_id
from stem.core.errors import SignatureInvalid, UsageError
from stem.core.heartbeat import Pulse
from stem.core.ids import uuid7
from stem.runtime.keys import Keyring

TIMEOUT_SECONDS = 5.0
# For a named worker without a heartbeat: a live one answers sooner, and most likely there is none.
UNKNOWN_SECONDS = 0.25
NO_KEYS = Keyring({})
SIGNED_EXTRA = "signedControl"  # where a worker's heartbeat says whether it asks for signatures
COMMANDS_EXTRA = (
    "commands"  # where the heartbeat of a process that obeys only some commands, as a scheduler, lists them
)


class Answers(msgspec.Struct, frozen=True):
    """Replies by worker id, in order of the ids; each expected worker has one, if only `timeout`."""

    request_id: str
    transport: str  # the one that carried the command
    elapsed_seconds: float
    replies: Mapping[str, Reply]
    health: Mapping[str, Health]
    is_verified: bool = False  # there are keys, so every reply here was signed with one

    @property
    def silent(self) -> list[str]:
        return [worker for worker, reply in self.replies.items() if reply.status == "timeout"]

    @property
    def is_all_ok(self) -> bool:
        return all(reply.status == "ok" for reply in self.replies.values())


class Caller:
    """Sends commands. Takes the live workers from the heartbeats in `store`, and the time from its clock."""

    def __init__(
        self,
        store: Store,
        keyring: Keyring = NO_KEYS,
        namespace: str | None = None,
        transport: CommandSender | None = None,
    ) -> None:
        self._store = store
        self._keyring = keyring
        self._namespace = namespace or store.namespace
        self._transport = transport or BrokerTransport(store.mail, self._namespace)

    def ask(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        workers: Sequence[str] = (),
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Answers:
        """Returns when every named worker (or, without names, every worker with a heartbeat) has answered, or when the time
        is up; workers without a heartbeat get a quarter of a second. Without any worker nothing is sent. Raises UsageError,
        StoreUnavailable, StoreRefused."""
        began = time.monotonic()
        known = self.known()
        expected = sorted(set(_checked(workers)) or {each for each, pulse in known.items() if _obeys(pulse, type)})
        command = self._command(type, payload or {}, tuple(sorted(set(workers))) or (ALL,), timeout_seconds)
        carrier, replies = self._transport.name, dict[str, Reply]()
        doubts: dict[str, str] = {}  # why the last reply in a worker's name does not count
        if expected:
            carrier = self._transport.send_command(command)
            try:
                replies = self._gather(command, expected, known, began + timeout_seconds, doubts)
            finally:
                self._transport.forget(command.request_id)
        silences = {
            worker: _silence(command, worker, worker in known, doubts.get(worker) if worker in known else None)
            for worker in expected
            if worker not in replies
        }
        return self._answers(command, carrier, began, {**silences, **replies})

    def known(self) -> dict[str, Pulse]:
        """Return the workers with a heartbeat, by id, without those that listen in another namespace."""
        pulses = {pulse.heartbeat.worker_id: pulse for pulse in self._store.heartbeats.all()}
        return {worker: pulse for worker, pulse in pulses.items() if self._is_ours(pulse)}

    @property
    def keyring(self) -> Keyring:
        return self._keyring

    @property
    def namespace(self) -> str:
        """The name that workers are asked under."""
        return self._namespace

    @property
    def tasks_namespace(self) -> str:
        """Where tasks and their revokes are kept, which may have another name than workers are asked under."""
        return self._store.namespace

    def now(self) -> float:
        """By the store's clock."""
        return self._store.upkeep.now()

    def asks_for_signatures(self) -> bool:
        """Whether a live worker accepts only signed commands, revokes and pauses."""
        return any(pulse.heartbeat.extras.get(SIGNED_EXTRA) is True for pulse in self.known().values())

    def close(self) -> None:
        self._transport.close()

    def _is_ours(self, pulse: Pulse) -> bool:
        return bool(pulse.heartbeat.extras.get("controlNamespace", self._namespace) == self._namespace)

    def _command(self, type: str, payload: Mapping[str, Any], targets: tuple[str, ...], seconds: float) -> Command:
        timeout_ms = round(seconds * 1000)
        if not 1 <= timeout_ms <= MAX_TIMEOUT_MS:
            raise UsageError(f"A time-out of {seconds:g} s is not from 0.001 to {MAX_TIMEOUT_MS // 1000} s.")
        now = self._store.upkeep.now()
        issued_at = int(now * 1000)
        command = Command(
            request_id=uuid7(now, os.urandom(10)),
            type=type,
            targets=targets,
            payload=_plain(payload),
            timeout_ms=timeout_ms,
            nonce=os.urandom(16).hex(),
            issued_at=issued_at,
            expires_at=issued_at + timeout_ms,
        )
        signed = sign(command, self._keyring, namespace=self._namespace)
        encode_command(signed)  # a command that nobody would read is refused here, before anybody is asked
        return signed

    def _gather(
        self, command: Command, expected: list[str], known: Mapping[str, Pulse], end: float, doubts: dict[str, str]
    ) -> dict[str, Reply]:
        replies: dict[str, Reply] = {}
        end_of_unknown = min(end, time.monotonic() + UNKNOWN_SECONDS)
        while missing := set(expected) - replies.keys():
            left = (end if missing & known.keys() else end_of_unknown) - time.monotonic()
            if left <= 0:
                break
            for reply in self._transport.receive_replies(command.request_id, left):
                if not command.is_for(reply.worker_id) or _is_about_a_copy(reply):
                    continue
                try:
                    verify_reply(reply, command, self._keyring, namespace=self._namespace)
                except SignatureInvalid as error:
                    doubts[reply.worker_id] = str(error)  # the worker's own may still come
                else:
                    replies.setdefault(reply.worker_id, reply)
        return replies

    def _answers(self, command: Command, carrier: str, began: float, replies: dict[str, Reply]) -> Answers:
        is_one_silent = any(reply.status == "timeout" for reply in replies.values())
        # Anew: a worker that died or said goodbye meanwhile is not a silent one.
        pulses = self.known() if is_one_silent else {}
        in_order = dict(sorted(replies.items()))
        return Answers(
            request_id=command.request_id,
            transport=carrier,
            elapsed_seconds=time.monotonic() - began,
            replies=in_order,
            health={worker: health(reply, pulses.get(worker)) for worker, reply in in_order.items()},
            is_verified=bool(self._keyring),
        )


def _checked(workers: Sequence[str]) -> Sequence[str]:
    if len(workers) > MAX_TARGETS:
        raise UsageError(f"{len(workers):,} workers are named and the limit is {MAX_TARGETS:,}; name none to ask all.")
    for worker in workers:
        if not is_worker_id(worker):
            raise UsageError(f"Worker {worker!r} is not 1 to 128 of letters, digits, '.', '_', '@', ':' and '-'.")
    return workers


def _plain(payload: Mapping[str, Any]) -> dict[str, Any]:
    """As the worker will read it: what is signed must not change on its way through JSON."""
    try:
        return msgspec.json.decode(msgspec.json.encode(dict(payload)), type=dict[str, Any])
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise UsageError(f"The payload is not JSON ({error}); use strings, numbers, lists and dicts.") from error


def _is_about_a_copy(reply: Reply) -> bool:
    """Each command has a nonce of its own, so this is said of a second copy; the answer to the first is on its way."""
    return reply.error is not None and reply.error.code == "replayed"


def _silence(command: Command, worker: str, is_known: bool, doubt: str | None) -> Reply:
    if doubt is not None:
        message = f"What was answered in the name of {worker} does not count: {doubt}"
        error = ReplyError(message=message, code="reply-unverified")
        return Reply(request_id=command.request_id, worker_id=worker, status="timeout", error=error)
    error = (
        ReplyError(message=f"Worker {worker} said nothing within {command.timeout_ms / 1000:g} s.", code="timeout")
        if is_known
        else ReplyError(
            message=f"No worker {worker} is known; see which are with: stem worker status", code="unknown-worker"
        )
    )
    return Reply(request_id=command.request_id, worker_id=worker, status="timeout", error=error)


def _obeys(pulse: Pulse, type: str) -> bool:
    """Whether a command without targets is meant for this worker as well."""
    commands = pulse.heartbeat.extras.get(COMMANDS_EXTRA)
    return not isinstance(commands, list) or type in commands
