"""Hand pushed tasks to this process over its LISTEN connection. See `stem.backends.handoff` for the protocol.

    worker ──► handoff_register(number, queues, free slots)        a row of `handoffs`, for five seconds
    push_one ─► a row with a free slot, whose number is locked      (the lock proves that the connection lives)
             ─► INSERT the task as leased, add its id to the row    one transaction
             ─► NOTIFY channel_<number> with the whole task
    worker ──► receives it, runs it
    worker ──► handoff_register(…, received ids)                    returns what the row lists and the worker has not received

A registration belongs to one LISTEN connection. Before its first, a test message is sent over the connection.
"""

import time
from dataclasses import dataclass
from time import monotonic

from stem.backends.handoff import REGISTRATION_SECONDS, UNHEARD_SECONDS, Handoff, Registration
from stem.backends.postgres.codec.text_columns import array
from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.postgres.notify.listen_connection import TEST, ListenConnection
from stem.backends.postgres.notify.notifier import NOTIFY
from stem.core.delivery import Delivery, Lease

_BUSY_SECONDS, _CROWDED_SECONDS = 0.25, 5.0  # until the next attempt
_WITHDRAW_AGAIN_SECONDS = 0.02
_LATE_SECONDS = 1.0  # the lease of a task that arrives so late may be nearly over


@dataclass(frozen=True, slots=True)
class RegisterAnswer:
    is_ready: bool  # a claim would find something
    due: str | None  # seconds until the next delayed task
    is_busy: bool  # a push holds the registration, which is unchanged
    oldest_seconds: float  # how long ago the oldest task was handed over that had not arrived


class PostgresHandoff(Handoff):
    def __init__(self, namespace: PostgresNamespace) -> None:
        self._namespace = namespace
        self._listener = namespace.listeners.work
        super().__init__()

    def _reset(self) -> None:
        super()._reset()
        self._not_before = 0.0
        self._is_late = False

    def begin_wait(self) -> int:
        self._listener.on_delivery = self._receive_notified
        return super().begin_wait()

    def is_due(self, queues: list[str], room: int) -> bool:
        known, number = self._registration, self._number()
        if monotonic() < self._not_before:
            return False
        if known is None:
            return room > 0 and (number is not None or self._untested() is not None)
        return known.number != number or self._is_late or super().is_due(queues, room)

    def register(self, queues: list[str], room: int, lease_seconds: float, withdrawals: int) -> tuple[bool, str | None]:
        """Register, renew or withdraw. Return whether a claim would find something, and the seconds until the next delayed task.
        Does nothing if somebody has withdrawn meanwhile."""
        with self._calling:
            if self.withdrawals != withdrawals:
                return True, None
            known, number, was_late = self._registration, self._number(), self._is_late
            if known is not None and known.number != number:  # its connection is gone, with all that was sent over it
                answer = self._call(known.number, known.queues, 0, known.lease_seconds)
                if answer.is_busy:
                    return answer.is_ready, answer.due
                self._handed.forget()
            if (connection := self._untested()) is not None:
                connection.tested_at = monotonic()
                self._namespace.client.rows(NOTIFY, ([connection.channel], [TEST]))
            room = max(0, room - len(self._handed))
            answer = self._call(number or 0, queues, 0 if number is None else room, lease_seconds)
            if answer.oldest_seconds > UNHEARD_SECONDS and not was_late:
                self._listener.reconnect()
            return answer.is_ready, answer.due

    def _withdraw(self, registration: Registration, seconds: float) -> None:
        known = registration
        answer = self._call(known.number, known.queues, 0, known.lease_seconds, timeout_seconds=seconds)
        self._listener.wake()
        if answer.is_busy:
            time.sleep(_WITHDRAW_AGAIN_SECONDS)

    def _call(
        self, number: int, queues: list[str], room: int, lease_seconds: float, timeout_seconds: float | None = None
    ) -> RegisterAnswer:
        """Register; without room, withdraw."""
        received = self._handed.received
        values = (str(number), array(queues), str(room), str(lease_seconds), str(REGISTRATION_SECONDS), array(received))
        *rows, state = self._namespace.call_as_text("handoff_register", *values, timeout_seconds=timeout_seconds)
        unheard = [
            Delivery(Lease(id, int(fence)), name, queue, int(attempt), int(deaths), body.encode())
            for id, fence, name, queue, attempt, deaths, body, *_ in rows
        ]
        now, is_ready, due, refusal = state[-4:]
        if refusal is not None:
            self._not_before = monotonic() + (_BUSY_SECONDS if refusal == "busy" else _CROWDED_SECONDS)
        if refusal != "busy":
            self._handed.reconcile(received, unheard)
            self._is_late = False
            is_registered = room > 0 and refusal is None
            free = room - len(unheard)
            self._registration = Registration.from_now(number, queues, lease_seconds, free) if is_registered else None
        oldest = max([float(now) - each.lease.fence / 1e6 for each in unheard], default=0.0)
        return RegisterAnswer(is_ready == "t", due, refusal == "busy", oldest)

    def _receive_notified(self, handed: Delivery, late_seconds: float) -> bool:
        """Called by the listener. False: it was fetched before, or its lease may be nearly over and it is to be fetched."""
        if self._handed.was_fetched(handed.lease.id):
            return False
        if (known := self._registration) is not None and late_seconds > min(_LATE_SECONDS, known.lease_seconds / 4):
            self._is_late = True
            return False
        self._receive(handed)
        return True

    def _number(self) -> int | None:
        """The number under which this process can register: that of a connection over which the test message arrived."""
        connection = self._connection()
        return connection.number if connection is not None and connection.is_tested else None

    def _untested(self) -> ListenConnection | None:
        connection = self._connection()
        if connection is None or connection.number is None or connection.tested_at is not None:
            return None
        return connection

    def _connection(self) -> ListenConnection | None:
        return None if self._is_stopped else self._listener.connection
