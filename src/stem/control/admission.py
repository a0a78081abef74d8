"""Decides whether a command may be carried out: it is signed, in time, new, and within the rate."""

import time
from dataclasses import dataclass
from heapq import heappop, heappush
from threading import Lock

from stem.control.signing import verify
from stem.core.control import MAX_TIMEOUT_MS, Command
from stem.core.decisions.ratelimit import Level, take
from stem.core.errors import SignatureInvalid, StemError
from stem.runtime.clock import Clock
from stem.runtime.keys import Keyring

MOST_NONCES = 100_000
# How much slower than ours a store's clock may run and still be followed; quartz is off by a tenth of that at most.
MOST_DRIFT = 0.001


class CommandRefused(StemError):
    """The command is not obeyed; `code` says why in one word."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """`clock` is the store's, which caller and worker share, so that their own clocks do not matter; `monotonic` is this
    machine's, which nobody can set back."""

    namespace: str
    clock: Clock
    keyring: Keyring
    commands_per_second: float
    monotonic: Clock = time.monotonic


class CommandAdmission:
    """Checks commands. Only a command that passes every other check takes a token and is remembered, so that a flood of
    forgeries locks nobody out."""

    def __init__(self, rules: AdmissionRules) -> None:
        self._rules = rules
        self._time = StoreTime(rules.clock, rules.monotonic, may_go_back=not rules.keyring)
        # What was sent before this worker listened was for its predecessor; and of that no nonce is remembered here.
        self._since_ms = _milliseconds(self._time.now())
        self._nonces = Nonces()
        self._level: Level | None = None
        self._deciding = Lock()

    def admit(self, command: Command) -> float:
        """Returns the store's now. Raises CommandRefused."""
        self._check_signature(command)
        now = self._now()
        self._check_time(command, _milliseconds(now))
        with self._deciding:
            self._check_nonce(command)
            self._take_token(now)
            if command.nonce is not None:
                self._nonces.add(command.nonce, self._forget_at(command, now))
        return now

    def _check_signature(self, command: Command) -> None:
        if self._rules.keyring and command.auth is not None and (missing := command.missing):
            raise CommandRefused(
                "invalid-command", f"The command has no `{missing}`, and this worker obeys signed commands only."
            )
        try:
            verify(command, self._rules.keyring, namespace=self._rules.namespace)
        except SignatureInvalid as error:
            raise CommandRefused("signature-invalid", str(error)) from error

    def _now(self) -> float:
        try:
            return self._time.now()
        except StemError as error:
            raise CommandRefused(
                "clock-unavailable", f"The store's clock cannot be asked, so no command is obeyed: {error}"
            ) from error

    def _check_time(self, command: Command, now_ms: int) -> None:
        if command.expires_at is not None and command.expires_at <= now_ms:
            raise CommandRefused(
                "expired", f"The command expired {now_ms - command.expires_at} ms ago.{self._time.remedy}"
            )
        # Without keys: a clock was set back, so go on from here, not when it has caught up. With keys now never goes back.
        self._since_ms = min(self._since_ms, now_ms)
        if command.issued_at is not None and command.issued_at < self._since_ms:
            raise CommandRefused("expired", "The command was sent before this worker listened.")
        if command.expires_at is not None and command.expires_at > now_ms + MAX_TIMEOUT_MS:
            raise CommandRefused("not-yet-valid", "The command was issued in the future; see the caller's clock.")

    def _forget_at(self, command: Command, now: float) -> float:
        """By our own clock, and not before the command has expired by the slowest clock that is followed."""
        lives_seconds = MAX_TIMEOUT_MS / 1000 if command.expires_at is None else command.expires_at / 1000 - now
        return self._rules.monotonic() + lives_seconds / (1 - MOST_DRIFT) + 1.0

    def _check_nonce(self, command: Command) -> None:
        self._nonces.drop_expired(self._rules.monotonic())
        if command.nonce is not None and command.nonce in self._nonces:
            raise CommandRefused("replayed", "A command with this nonce has been obeyed before.")
        if len(self._nonces) >= MOST_NONCES:
            raise CommandRefused(
                "rate-limited", "More commands are being remembered than there is room for; send fewer."
            )

    def _take_token(self, now: float) -> None:
        rate = self._rules.commands_per_second
        wait_seconds, level = take(
            self._level, pace_seconds=1 / rate, burst=max(1.0, rate), now=now, random_fraction=0.0
        )
        if wait_seconds > 0:
            raise CommandRefused("rate-limited", f"This worker takes {rate:g} commands a second; ask again later.")
        self._level = level


class StoreTime:
    """The store's clock, compared with this machine's. Where it may not go back, it follows this machine's while it stands
    still or is set back, so that an expired command stays expired. Drift of the store's clock is followed."""

    def __init__(self, clock: Clock, monotonic: Clock, *, may_go_back: bool) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._may_go_back = may_go_back
        self._last: tuple[float, float] | None = None  # the latest now, and when that was by our own clock
        self._is_behind = False
        self._turn = Lock()

    def now(self) -> float:
        """Raises what the clock raises."""
        theirs = self._clock()
        if self._may_go_back:
            return theirs
        with self._turn:
            ours = self._monotonic()
            then, at = self._last or (theirs, ours)
            least = then + (ours - at) * (1 - MOST_DRIFT)
            self._is_behind = theirs < least - 1.0
            self._last = max(theirs, least), ours
            return self._last[0]

    @property
    def remedy(self) -> str:
        return " The store's clock was set back; restart the worker to go by it." if self._is_behind else ""


class Nonces:
    """Remembers the nonces of commands until they expire; after that, the expiry refuses a replay."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._by_expiry: list[tuple[float, str]] = []

    def __contains__(self, nonce: str) -> bool:
        return nonce in self._known

    def __len__(self) -> int:
        return len(self._known)

    def add(self, nonce: str, forget_at: float) -> None:
        self._known.add(nonce)
        heappush(self._by_expiry, (forget_at, nonce))

    def drop_expired(self, now: float) -> None:
        while self._by_expiry and self._by_expiry[0][0] <= now:
            self._known.discard(heappop(self._by_expiry)[1])


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
