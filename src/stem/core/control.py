"""Commands and replies between callers and workers, their JSON form and its limits."""

import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from stem.core.errors import StemError, UsageError

T = TypeVar("T")

ALL = "*"
MAX_COMMAND_BYTES = 256 * 1024
MAX_REPLY_BYTES = 1024 * 1024
MAX_TARGETS = 1000
MAX_TIMEOUT_MS = 600_000

Status = Literal["ok", "error", "timeout"]
RequestId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:\-]{0,127}\Z")]
CommandType = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9\-]{0,63}\Z")]
WorkerId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@:\-]{0,127}\Z")]
Target = Annotated[str, msgspec.Meta(pattern=r"^(\*|[A-Za-z0-9][A-Za-z0-9._@:\-]{0,127})\Z")]
Nonce = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._\-]{16,128}\Z")]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]

_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)  # what a decoder may raise; ValueError: broken UTF-8
_WORKER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@:\-]{0,127}", re.ASCII)


class MessageUnreadable(StemError):
    """The command or reply is too large, not JSON, or not of the form that the specification gives it."""


class Auth(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    signature: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    key_id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class Command(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One command to some workers, or all. It lives from `issued_at` to `expires_at` (milliseconds of the store's clock), and
    a worker carries out each `nonce` once. The specification's message has none of the three: a worker without keys obeys it."""

    request_id: RequestId
    type: CommandType
    targets: Annotated[tuple[Target, ...], msgspec.Meta(min_length=1, max_length=MAX_TARGETS)]
    payload: dict[str, Any]
    timeout_ms: Annotated[int, msgspec.Meta(ge=1, le=MAX_TIMEOUT_MS)]
    auth: Auth | None = None
    nonce: Nonce | None = None
    issued_at: Milliseconds | None = None
    expires_at: Milliseconds | None = None

    def __post_init__(self) -> None:
        if self.issued_at is None or self.expires_at is None:
            return
        # A bounded life bounds what a worker must remember of it.
        if not 0 < self.expires_at - self.issued_at <= MAX_TIMEOUT_MS:
            raise ValueError(f"`expiresAt` is not within {MAX_TIMEOUT_MS} ms after `issuedAt`")

    @property
    def missing(self) -> str | None:
        """The first field that a signed command needs and this one has not, by its name in JSON."""
        needed = {"nonce": self.nonce, "issuedAt": self.issued_at, "expiresAt": self.expires_at}
        return next((name for name, value in needed.items() if value is None), None)

    def is_for(self, worker_id: str) -> bool:
        return ALL in self.targets or worker_id in self.targets


class ReplyError(msgspec.Struct, frozen=True, kw_only=True):
    message: str
    code: str


class Reply(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What one worker says to one command; `timeout` is what the caller writes down for one that said nothing."""

    request_id: RequestId
    worker_id: WorkerId
    status: Status
    payload: dict[str, Any] = {}
    error: ReplyError | None = None
    auth: Auth | msgspec.UnsetType | None = msgspec.UNSET  # only where keys are set: the specification has none


class Heading(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Enough of a malformed command to tell its sender what is wrong with it."""

    request_id: RequestId
    targets: tuple[str, ...]


def encode_command(command: Command) -> bytes:
    """Raises UsageError for what no worker would read."""
    try:
        encoded = msgspec.json.encode(command)
        _commands.decode(encoded)
    except (TypeError, OverflowError, *_UNREADABLE) as error:
        raise UsageError(
            f"Command {command.type!r} cannot be sent ({error}); change its payload or targets."
        ) from error
    if len(encoded) > MAX_COMMAND_BYTES:
        raise UsageError(
            f"Command {command.type!r} takes {len(encoded):,} bytes and the limit is {MAX_COMMAND_BYTES:,}; send it in parts."
        )
    return encoded


def decode_command(raw: bytes) -> Command:
    """Raises MessageUnreadable."""
    return _read(_commands, raw, MAX_COMMAND_BYTES, "command")


def decode_heading(raw: bytes) -> Heading | None:
    try:
        return _read(_headings, raw, MAX_COMMAND_BYTES, "command")
    except MessageUnreadable:
        return None


def encode_reply(reply: Reply) -> bytes:
    """Raises UsageError for what no caller would read."""
    try:
        encoded = msgspec.json.encode(reply)
        _replies.decode(encoded)
    except (TypeError, OverflowError, *_UNREADABLE) as error:
        raise UsageError(f"The reply of {reply.worker_id} is not JSON ({error}); answer with plain values.") from error
    if len(encoded) > MAX_REPLY_BYTES:
        raise UsageError(f"The reply takes {len(encoded):,} bytes and the limit is {MAX_REPLY_BYTES:,}; ask for less.")
    return encoded


def decode_reply(raw: bytes) -> Reply:
    """Raises MessageUnreadable."""
    return _read(_replies, raw, MAX_REPLY_BYTES, "reply")


def canonical(command: Command) -> bytes:
    """What a signature covers: all but the signature, as JSON without spaces, keys in order at every depth."""
    return _without_auth(command)


def canonical_reply(reply: Reply) -> bytes:
    """The same of a reply."""
    return _without_auth(reply)


def _without_auth(message: Command | Reply) -> bytes:
    fields = msgspec.to_builtins(message)
    fields.pop("auth", None)
    return msgspec.json.encode(fields, order="sorted")


def is_worker_id(text: str) -> bool:
    return _WORKER_ID.fullmatch(text) is not None


def _read(decoder: msgspec.json.Decoder[T], raw: bytes, limit_bytes: int, what: str) -> T:
    if len(raw) > limit_bytes:
        raise MessageUnreadable(f"A {what} of {len(raw):,} bytes is over the limit of {limit_bytes:,}.")
    try:
        return decoder.decode(raw)
    except _UNREADABLE as error:
        raise MessageUnreadable(f"A {what} cannot be read: {error}") from error


_commands = msgspec.json.Decoder(Command)
_headings = msgspec.json.Decoder(Heading)
_replies = msgspec.json.Decoder(Reply)
