"""Whether a command may be obeyed: signed, in time, new, and not too many."""

from dataclasses import dataclass
from heapq import heappop, heappush
from threading import Lock

from stem.control.signing import verify
from stem.core.control import MAX_TIMEOUT_MS, Command
from stem.core.errors import SignatureInvalid, StemError
from stem.core.ratelimit import Level, take
from stem.runtime.clock import Clock
from stem.runtime.keys import Keyring

MOST_NONCES = 100_000


class Refused(StemError):
    """The command is not obeyed; `code` says why in one word."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Rules:
    """`clock` is the store's, which asker and worker share, so that neither's own clock matters."""

    namespace: str
    clock: Clock
    keyring: Keyring
    commands_per_second: float


class Admission:
    """Only what has passed all else costs a token or is remembered, so that a flood of forgeries locks nobody out."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        # What was sent before this worker listened was for its predecessor; and of that no nonce is remembered here.
        self._since_ms = _milliseconds(rules.clock())
        self._nonces = Nonces()
        self._level: Level | None = None
        self._deciding = Lock()

    def admit(self, command: Command) -> None:
        """Raises Refused."""
        self._check_signature(command)
        now = self._now()
        self._check_time(command, _milliseconds(now))
        with self._deciding:
            self._check_nonce(command, _milliseconds(now))
            self._take_token(now)
            self._nonces.add(command.nonce, command.expires_at)

    def _check_signature(self, command: Command) -> None:
        try:
            verify(command, self._rules.keyring, namespace=self._rules.namespace)
        except SignatureInvalid as error:
            raise Refused("signature-invalid", str(error)) from error

    def _now(self) -> float:
        try:
            return self._rules.clock()
        except StemError as error:
            raise Refused(
                "clock-unavailable", f"The store's clock cannot be asked, so no command is obeyed: {error}"
            ) from error

    def _check_time(self, command: Command, now_ms: int) -> None:
        if command.expires_at <= now_ms:
            raise Refused("expired", f"The command expired {now_ms - command.expires_at} ms ago.")
        self._since_ms = min(self._since_ms, now_ms)  # a clock was set back: go on from here, not when it has caught up
        if command.issued_at < self._since_ms:
            raise Refused("expired", "The command was sent before this worker listened.")
        if command.expires_at > now_ms + MAX_TIMEOUT_MS:
            raise Refused("not-yet-valid", "The command was issued in the future; see the asker's clock.")

    def _check_nonce(self, command: Command, now_ms: int) -> None:
        self._nonces.drop_expired(now_ms)
        if command.nonce in self._nonces:
            raise Refused("replayed", "A command with this nonce has been obeyed before.")
        if len(self._nonces) >= MOST_NONCES:
            raise Refused("rate-limited", "More commands are being remembered than there is room for; send fewer.")

    def _take_token(self, now: float) -> None:
        rate = self._rules.commands_per_second
        wait_seconds, level = take(self._level, pace_seconds=1 / rate, burst=max(1.0, rate), now=now, chance=0.0)
        if wait_seconds > 0:
            raise Refused("rate-limited", f"This worker takes {rate:g} commands a second; ask again later.")
        self._level = level


class Nonces:
    """Those obeyed, each until its command has expired: after that the expiry refuses a replay."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._by_expiry: list[tuple[int, str]] = []

    def __contains__(self, nonce: str) -> bool:
        return nonce in self._known

    def __len__(self) -> int:
        return len(self._known)

    def add(self, nonce: str, expires_at_ms: int) -> None:
        self._known.add(nonce)
        heappush(self._by_expiry, (expires_at_ms, nonce))

    def drop_expired(self, now_ms: int) -> None:
        while self._by_expiry and self._by_expiry[0][0] <= now_ms:
            self._known.discard(heappop(self._by_expiry)[1])


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
