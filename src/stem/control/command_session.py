"""The session in which an operator's command runs, and its result."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from stem.contracts.steering.revokes import Revokes
from stem.contracts.store import Store
from stem.control.caller import Answers, Caller


class CommandSession(msgspec.Struct, frozen=True):
    """An open store, and the workers that are to be asked through it: those named, or all. `revokes` opens the place of
    revokes and pauses, which may be another store. `requester` is who asks, for their records."""

    store: Store
    caller: Caller
    revokes: Callable[[], AbstractContextManager[Revokes]]
    requester: str
    timeout_seconds: float
    workers: tuple[str, ...] = ()

    def ask(self, type: str, payload: Mapping[str, Any] | None = None) -> Answers:
        return self.caller.ask(type, payload, workers=self.workers, timeout_seconds=self.timeout_seconds)


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """What workers answered. `more` stands beside the replies in JSON, `note` before their table. `without_workers`: what was
    stored holds without a worker, and this sentence says so."""

    answers: Answers | None
    more: Mapping[str, Any] = {}
    note: str = ""
    without_workers: str = ""
