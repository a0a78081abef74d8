"""The envelope: one call of a task, frozen when sent, and its JSON form."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from stem.core.bounds import MAX_ATTEMPT, MOST_PRIORITY, Attempt, Priority, Retries, Seconds, Version
from stem.core.decisions.retry import RetryStrategy
from stem.core.errors import EnvelopeUnreadable, InvalidTask
from stem.core.prerequisites import JOINS, OnFailure
from stem.core.text.encode import encode_json
from stem.core.text.sensitive import masked_args

VERSION = 1
HEADER_PREFIX = "stem-"
SIGNATURE_HEADER = "stem-signature"
SIGNING_KEY_HEADER = "stem-signing-key"

_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:\-]{0,127}", re.ASCII)
_TASK_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:<>\-]{0,254}", re.ASCII)
_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)  # what a decoder may raise; ValueError: broken UTF-8
_HEADER_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,64}", re.ASCII)


class Envelope(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The specification's fields in camelCase JSON. Arguments stay encoded until the task runs.

    Durations are seconds. Times are the sender's; the store keeps its own for what is due and what has waited.
    """

    id: str
    name: str
    args: msgspec.Raw
    headers: dict[str, str]
    enqueued_at: datetime
    not_before: datetime | None
    priority: Priority
    attempt: Attempt
    max_retries: Retries
    visibility_timeout: Seconds | None
    queue: str
    meta: dict[str, Any]
    version: Version
    expires_at: datetime | None = None
    retry: RetryStrategy | None = None
    soft_limit: Seconds | None = None
    hard_limit: Seconds | None = None
    after: tuple[str, ...] = ()  # ids of prerequisites: it waits until they have ended
    on_failure: OnFailure = OnFailure.CANCEL
    inputs: dict[str, str] = {}  # parameters that are filled, when it starts, with the value of a prerequisite
    sensitive: tuple[str, ...] = ()  # arguments that nobody is shown, by name or path

    @property
    def is_join(self) -> bool:
        """Whether it runs nothing and ends by itself when its prerequisites have ended."""
        return self.name in JOINS

    @property
    def shown_args(self) -> bytes:
        """The arguments as JSON, for people and logs: sensitive ones are masked."""
        return masked_args(self.args, self.sensitive)

    def arguments(self) -> dict[str, Any]:
        """The real values. Raises EnvelopeUnreadable."""
        try:
            return msgspec.json.decode(self.args, type=dict[str, Any])
        except _UNREADABLE as error:
            raise EnvelopeUnreadable(
                f"The arguments of {self.id} cannot be read ({error}); inspect its dead letter."
            ) from error


class Supersedes(StrEnum):
    """Which holders of its key a push cancels."""

    WAITING = "waiting"
    RUNNING = "running"


class Unique(msgspec.Struct, frozen=True):
    """A uniqueness key. While it is held, a push with the same key returns the holder's id and stores nothing.

    `seconds` None: held until the holder ends. Otherwise: held that long from the push, whatever the holder does.

    With `supersedes`, the push is stored and takes the key from its holder, which is cancelled if it waits or, with
    `Supersedes.RUNNING`, even if it runs. `max_delay_seconds` bounds how long a series of such pushes can put off its start:
    counted from the first push of the series, which ends when one of its tasks is claimed.
    """

    key: str
    seconds: float | None = None
    supersedes: Supersedes | None = None
    max_delay_seconds: float | None = None


class Push(msgspec.Struct, frozen=True):
    """An envelope on its way into a store. Delays count from the store's clock, so a skewed sender does no harm."""

    envelope: Envelope
    delay_seconds: float | None = None
    expires_seconds: float | None = None
    unique: Unique | None = None
    into: str | None = None  # a join that waits for this task as well from now on


class Receipt(msgspec.Struct, frozen=True):
    """The result of a push: the task's id, whether this push created it, and the task that it cancelled, if any."""

    id: str
    created: bool
    superseded: str | None = None


def encode(envelope: Envelope) -> bytes:
    return _encoder.encode(envelope)


def decode(body: bytes | str, *, attempt: int | None = None) -> Envelope:
    """Decode a stored body. A store keeps the body as it was sent and the attempt beside it."""
    try:
        envelope = _decoder.decode(body)
    except _UNREADABLE as error:
        raise EnvelopeUnreadable(f"The stored envelope cannot be read ({error}); inspect its dead letter.") from error
    if envelope.version > VERSION:
        raise EnvelopeUnreadable(
            f"Envelope {envelope.id} has version {envelope.version} and this Stem reads up to {VERSION}; upgrade it."
        )
    if attempt is None:
        return envelope
    if not 0 <= attempt <= MAX_ATTEMPT:
        raise EnvelopeUnreadable(f"The store says {attempt} for the attempt of {envelope.id}; inspect its dead letter.")
    return at_attempt(envelope, attempt)


def call_facts(body: bytes) -> dict[str, Any]:
    """Return the facts of the call for its events: its tenant, and when it was due if not at once.

    Called for every task, so bodies without either are recognised without decoding."""
    if _SAYS_TENANT not in body and _SAYS_DUE not in body:
        return _NO_FACTS
    try:
        call = _call_decoder.decode(body)
    except _UNREADABLE:
        return _NO_FACTS
    facts: dict[str, Any] = {}
    if tenant := call.headers.get("tenant"):
        facts["tenant"] = tenant
    if call.not_before is not None:
        facts["dueAt"] = call.not_before
    return facts


def due_at(body: bytes) -> float | None:
    """Return when the call was enqueued, or was due if that was later, by the sender's clock; None if the body is unreadable."""
    try:
        call = _times_decoder.decode(body)
    except _UNREADABLE:
        return None
    enqueued_at = call.enqueued_at.timestamp()
    return enqueued_at if call.not_before is None else max(enqueued_at, call.not_before.timestamp())


def at_attempt(envelope: Envelope, attempt: int) -> Envelope:
    return envelope if envelope.attempt == attempt else msgspec.structs.replace(envelope, attempt=attempt)


def signed_bytes(envelope: Envelope) -> bytes:
    """Return what a signature covers: the fields that retry, requeue and replay leave alone, in canonical JSON.
    Raises EnvelopeUnreadable."""
    signed = {
        "id": envelope.id,
        "name": envelope.name,
        "args": envelope.arguments(),
        "headers": {k: v for k, v in envelope.headers.items() if not k.startswith(HEADER_PREFIX)},
        "queue": envelope.queue,
        "priority": envelope.priority,
        "maxRetries": envelope.max_retries,
        "enqueuedAt": envelope.enqueued_at,
        "notBefore": envelope.not_before,
        "expiresAt": envelope.expires_at,
        "visibilityTimeout": envelope.visibility_timeout,
        "softLimit": envelope.soft_limit,
        "hardLimit": envelope.hard_limit,
        "retry": envelope.retry,
        "meta": envelope.meta,
        "version": envelope.version,
    }
    if envelope.after or envelope.inputs or envelope.on_failure is not OnFailure.CANCEL:
        # Only then: what was signed before there were prerequisites stays valid.
        signed |= {"after": envelope.after, "onFailure": envelope.on_failure, "inputs": envelope.inputs}
    if envelope.sensitive:  # likewise
        signed["sensitive"] = envelope.sensitive
    try:
        return msgspec.json.encode(signed, order="sorted")
    except RecursionError as error:
        raise EnvelopeUnreadable(f"Envelope {envelope.id} is nested too deeply to be signed; flatten it.") from error


def encode_args(arguments: Mapping[str, Any], *, limit_bytes: int) -> msgspec.Raw:
    """Encode arguments as one JSON object. Raises InvalidArguments."""
    return encode_json(dict(arguments), what="the arguments", limit_bytes=limit_bytes)


def check_id(value: str) -> str:
    return _checked(value, _IDENTIFIER, "task id", "1 to 128 of letters, digits, '.', '_', ':' and '-'")


def check_queue(value: str) -> str:
    return _checked(value, _IDENTIFIER, "queue", "1 to 128 of letters, digits, '.', '_', ':' and '-'")


def check_name(value: str) -> str:
    if value in JOINS:
        raise InvalidTask(f"The task name {value!r} is reserved for Stem's own joins; choose another name.")
    return _checked(
        value,
        _TASK_NAME,
        "task name",
        "1 to 255 of letters, digits, '_', '.', ':', '-', '<' and '>'",
        first="a letter, digit or '_'",
    )


def check_priority(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_PRIORITY:
        raise InvalidTask(f"Priority {value!r} is not a whole number from 0 (last) to {MOST_PRIORITY} (first).")
    return value


def check_moment(value: datetime, what: str) -> datetime:
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidTask(f"{what} {value.isoformat()} has no time zone; use datetime.now(UTC) or .astimezone().")
    return value.astimezone(UTC)


def check_sensitive(names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidTask(f"sensitive is {names!r}; give a list of arguments, like sensitive=['card', 'payment.cvv'].")
    found = tuple(dict.fromkeys(names))
    for name in found:
        if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
            raise InvalidTask(f"sensitive names {name!r}; name an argument, or a path into it like 'payment.cvv'.")
    return found


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise InvalidTask(f"Header name {name!r} is not 1 to 64 of letters, digits, '_', '.' and '-'.")
        if name.lower().startswith(HEADER_PREFIX):
            raise InvalidTask(f"Header {name!r} is reserved: names that begin with '{HEADER_PREFIX}' are Stem's own.")
        if not isinstance(value, str) or "\x00" in value:
            raise InvalidTask(f"Header {name!r} must be a string without NUL characters.")
    return dict(headers)


def _checked(value: str, pattern: re.Pattern[str], what: str, allowed: str, *, first: str = "a letter or digit") -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InvalidTask(f"{what.capitalize()} {value!r} is not allowed; use {allowed}, beginning with {first}.")
    return value


class _Call(msgspec.Struct, rename="camel"):
    headers: dict[str, str]
    not_before: str | None = None


class _Times(msgspec.Struct, rename="camel"):
    enqueued_at: datetime
    not_before: datetime | None = None


_SAYS_TENANT, _SAYS_DUE = b'"tenant"', b'"notBefore":"'
_NO_FACTS: dict[str, Any] = {}
_call_decoder = msgspec.json.Decoder(_Call)
_times_decoder = msgspec.json.Decoder(_Times)
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Envelope)
