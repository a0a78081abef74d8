"""Answers commands for one worker: takes raw bytes, returns a reply or None, and never raises."""

import logging
import time
from collections import Counter
from collections.abc import Collection
from threading import Lock
from typing import Any

import msgspec

from stem.contracts.steering.control import Steerable
from stem.control.admission import AdmissionRules, CommandAdmission, CommandRefused
from stem.control.registry import Call, ControlCommand, all_commands, find_command
from stem.control.signing import sign_reply
from stem.core.control import (
    ALL,
    MAX_COMMAND_BYTES,
    Auth,
    Command,
    MessageUnreadable,
    Reply,
    ReplyError,
    decode_command,
    decode_heading,
    decode_reply,
    encode_reply,
)
from stem.core.errors import StemError, UsageError
from stem.runtime.clock import Clock
from stem.runtime.keys import Keyring
from stem.runtime.summed_log import SummedLog

log = logging.getLogger("stem.control")

COMMANDS_PER_SECOND = 10.0
# Refusals that anybody with access to a worker's mailbox can cause, as often as they like.
_CHEAP = frozenset(
    {"signature-invalid", "invalid-command", "too-large", "expired", "not-yet-valid", "replayed", "rate-limited"}
)
NO_KEYS = Keyring({})
_LONGEST = Auth(signature="-" * 512, key_id="-" * 64)  # room for a signature


class Responder:
    """Safe to be called from several threads. `counts` has what became of commands: `ok`, or the code of a refusal."""

    def __init__(
        self,
        worker: Steerable,
        *,
        namespace: str,
        clock: Clock,
        keyring: Keyring = NO_KEYS,
        commands_per_second: float = COMMANDS_PER_SECOND,
        monotonic: Clock = time.monotonic,
        commands: Collection[str] | None = None,
    ) -> None:
        """`commands` are those that it obeys; None: all. Raises what the clock raises. Commands that were issued before now are
        refused."""
        self._commands = commands
        self._worker = worker
        self._namespace = namespace
        self._keyring = keyring
        self._admission = CommandAdmission(AdmissionRules(namespace, clock, keyring, commands_per_second, monotonic))
        # Summed apart from other refusals: what costs its sender nothing must not flood the log.
        self._forgeries = SummedLog(log, clock=monotonic)
        self._counting = Lock()
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> dict[str, int]:
        with self._counting:
            return dict(self._counts)

    def answer(self, raw: bytes) -> Reply | None:
        """None: it was for others, or not readable enough to be answered."""
        try:
            command = decode_command(raw)
        except MessageUnreadable as error:
            return self._unreadable(raw, error)
        if not command.is_for(self._worker.worker_id) or (ALL in command.targets and not self._obeys(command.type)):
            return None
        try:
            return sign_reply(self._reply(command), command, self._keyring, namespace=self._namespace)
        except RecursionError:
            return self._unreadable(raw, MessageUnreadable("The command is nested too deeply."))

    def flush(self) -> None:
        """Tell what the log has summed up so far."""
        self._forgeries.flush()

    def _reply(self, command: Command) -> Reply:
        try:
            return self._obey(command)
        except CommandRefused as refusal:
            return self._refuse(command.request_id, command.type, refusal)
        except RecursionError:
            raise
        except Exception:
            log.exception("control.failed type=%s request=%s", command.type, command.request_id)
            self._count("failed")
            return self._error(command.request_id, CommandRefused("failed", "The worker failed to obey; see its log."))

    def _obey(self, command: Command) -> Reply:
        """Raises CommandRefused."""
        now = self._admission.admit(command)
        entry = find_command(command.type)
        if entry is None:
            known = ", ".join(each.name for each in all_commands())
            raise CommandRefused("unknown-command", f"There is no command {command.type!r}; there are {known}.")
        if not self._obeys(entry.name):
            known = ", ".join(sorted(self._commands or ()))
            raise CommandRefused(
                "unknown-command", f"{self._worker.worker_id} does not obey {entry.name!r}; it obeys {known}."
            )
        payload = self._run(entry, command, now)
        reply = Reply(request_id=command.request_id, worker_id=self._worker.worker_id, status="ok", payload=payload)
        self._count("ok")
        level = logging.INFO if entry.changes else logging.DEBUG
        log.log(level, "control.obeyed type=%s request=%s key=%s", entry.name, command.request_id, self._key(command))
        return _fitting(reply)

    def _obeys(self, type: str) -> bool:
        return self._commands is None or type in self._commands

    def _key(self, command: Command) -> str:
        """Who signed it; nobody's word counts where nothing is verified."""
        return command.auth.key_id if self._keyring and command.auth is not None else "-"

    def _run(self, entry: ControlCommand, command: Command, now: float) -> dict[str, Any]:
        issued_at = now if command.issued_at is None else command.issued_at / 1000
        try:
            return entry.run(Call(self._worker, entry.read(command.payload), issued_at))
        except (msgspec.ValidationError, UsageError) as error:
            raise CommandRefused("invalid-payload", str(error)) from error
        except StemError as error:
            raise CommandRefused("failed", str(error)) from error

    def _unreadable(self, raw: bytes, error: MessageUnreadable) -> Reply | None:
        code = "too-large" if len(raw) > MAX_COMMAND_BYTES else "invalid-command"
        heading = decode_heading(raw)
        if heading is None:
            self._note("-", "-", CommandRefused(code, str(error)))
            return None
        if ALL not in heading.targets and self._worker.worker_id not in heading.targets:
            return None
        return self._refuse(heading.request_id, "-", CommandRefused(code, str(error)))

    def _refuse(self, request_id: str, type: str, refusal: CommandRefused) -> Reply:
        self._note(request_id, type, refusal)
        return self._error(request_id, refusal)

    def _note(self, request_id: str, type: str, refusal: CommandRefused) -> None:
        self._count(refusal.code)
        sentence = f"control.refused code={refusal.code} type={type} request={request_id}: {refusal}"
        if refusal.code in _CHEAP:
            self._forgeries.warning(sentence)
        else:
            log.warning("%s", sentence)

    def _error(self, request_id: str, refusal: CommandRefused) -> Reply:
        error = ReplyError(message=str(refusal), code=refusal.code)
        return Reply(request_id=request_id, worker_id=self._worker.worker_id, status="error", error=error)

    def _count(self, what: str) -> None:
        with self._counting:
            self._counts[what] += 1


def _fitting(reply: Reply) -> Reply:
    """Return the reply as the caller will read it, because that is signed. A reply that cannot be encoded becomes an error that
    tells so; the command was obeyed all the same."""
    try:
        sent = encode_reply(msgspec.structs.replace(reply, auth=_LONGEST))
    except UsageError as error:
        told = ReplyError(message=f"The command was obeyed, but: {error}", code="reply-unsendable")
        return msgspec.structs.replace(reply, status="error", payload={}, error=told)
    return msgspec.structs.replace(decode_reply(sent), auth=msgspec.UNSET)
