"""Run the items of a bulk one after the other in the child process, and settle each as a worker does."""

import random
import select
import signal
import socket
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from types import FrameType
from typing import Any, NoReturn

import msgspec

from stem.client.app import Stem
from stem.client.canvas.canvas import Canvas
from stem.client.canvas.values import StoredValue
from stem.client.run.admit import Admitted
from stem.client.run.context import StoppedBy, TaskContext, running
from stem.client.run.invoke import invoke
from stem.client.send.compose import envelope_template
from stem.client.task.policy import policy_for
from stem.core.decisions.settle import settle
from stem.core.delivery import Delivery, Lease
from stem.core.envelope import Envelope, Push, Receipt
from stem.core.errors import InvalidArguments, SoftTimeLimitExceeded, UsageError
from stem.core.outcome import Block, Cancelled, Dead, Done, Outcome, Rejected, Requeue, Retry, Returned
from stem.core.record import TaskError
from stem.pipeline.bulk.item_id import task_id, worker_name
from stem.pipeline.bulk.protocol import Failed, ItemBlock, ItemResults, Job, SingleItem, framed, receive

SEND_SECONDS = 0.05  # results are sent this often: unsent ones are lost if the process dies

Entry = tuple[float, int, SingleItem]  # due, tie-breaker, item


class ItemContext(TaskContext):
    """The context of the item that runs. Most items never use it, so its parts are made on demand."""

    __slots__ = ("_job", "_of_all", "_partition", "at")

    def __init__(self, app: Stem, envelope: Envelope, job: Job, partition: int) -> None:
        self._job, self._partition, self._of_all = job, partition, envelope
        self.at: tuple[ItemBlock | SingleItem, int] = SingleItem(0, 0, b"{}", None, 0, 0), 0
        super().__init__(app, self.delivery, envelope, _Channel(app), worker_name(job.bulk))

    @property
    def delivery(self) -> Delivery:
        item, envelope = _item(*self.at), self._of_all
        name = self._job.item_of(self._partition, item.number, item.key)
        lease = Lease(task_id(self._job.bulk, name), 0)
        return Delivery(lease, envelope.name, envelope.queue, item.attempt, item.deaths, b"")

    @delivery.setter
    def delivery(self, _delivery: Delivery) -> None: ...

    @property
    def _envelope(self) -> Envelope:
        item = _item(*self.at)
        return msgspec.structs.replace(
            self._of_all, id=self.delivery.lease.id, args=msgspec.Raw(item.raw), attempt=item.attempt
        )

    @_envelope.setter
    def _envelope(self, _envelope: Envelope) -> None: ...

    def replace(self, canvas: Canvas[Any]) -> NoReturn:
        raise UsageError(
            f"An item of a bulk task cannot be replaced by a {canvas.kind}; enqueue it with ctx.enqueue(…)."
        )


class _Channel:
    """Items send no heartbeats; what they enqueue goes straight to the store."""

    def __init__(self, app: Stem) -> None:
        self._app = app

    def beat(self, progress: dict[str, Any] | None) -> None: ...

    def stopped_by(self) -> StoppedBy:
        return ""

    def extend(self, seconds: float) -> None: ...

    def push(self, pushes: Sequence[Push]) -> list[Receipt]:
        return self._app.store_connection.push(pushes)

    def steps(self, task_id: str) -> NoReturn:
        raise UsageError(f"{task_id} is an item of a bulk run, which has no durable steps; enqueue it as a task.")

    def record_step(self, lease: Lease, name: str, payload: msgspec.Raw) -> NoReturn:  # noqa: ARG002
        self.steps(lease.id)

    def records(self, task_ids: Sequence[str]) -> dict[str, StoredValue]:  # noqa: ARG002
        """Items take no values of other tasks."""
        return {}


class ItemRunner:
    """Runs items. `cell[0]` is the item that runs and `clock[1]` its start: what the parent knows if this process dies."""

    def __init__(self, app: Stem, job: Job, partition: int, line: socket.socket, cell: memoryview) -> None:
        self._task = app.tasks[job.task]
        self._definition = self._task.definition
        self._job = job
        self._line = line
        self._cell, self._clock = cell.cast("q"), cell.cast("d")
        envelope = envelope_template(job.task, self._definition.plan, is_fair=app.settings.fair_share)
        self._envelope = envelope
        self._policy = policy_for(envelope, self._definition.retry)
        self._hooks = app.store_connection.hooks
        self._is_plain = not self._hooks.middleware and self._definition.soft_limit is None
        signature = self._definition.signature
        self._decode: Callable[[Any], dict[str, Any]] = _nothing if signature is None else signature.decode
        self._limit_bytes = app.settings.max_args_bytes
        self._context = ItemContext(app, envelope, job, partition)
        self._turns = ResultSender(line)
        self._waiting: list[Entry] = []  # for their next attempt
        self._count = 0

    def serve(self) -> None:
        running.set(self._context)
        if self._definition.soft_limit is not None:
            signal.signal(signal.SIGALRM, self._too_long)
        while (word := self._next()) is not None:
            match word:
                case ItemBlock():
                    self._run_block(word)
                case SingleItem():
                    self._run(word)
            self._cell[0] = -1
            self._turns.tell()

    def _next(self) -> ItemBlock | SingleItem | None:
        """Wait for the next message; meanwhile run retries that are due."""
        while self._waiting:
            due = self._waiting[0][0] - time.time()
            if due <= 0:
                self._run_due()
                self._cell[0] = -1
                self._turns.tell_soon()
            elif self._turns.has_news:
                self._turns.tell()
            elif select.select([self._line], [], [], due)[0]:
                break
        self._turns.tell()
        return receive(self._line)

    def _run_block(self, work: ItemBlock) -> None:
        if self._is_plain:
            self._run_plain_block(work)
            return
        for place in range(len(work.raws)):
            self._run_what_is_due()
            self._run(_item(work, place))

    def _run_plain_block(self, work: ItemBlock) -> None:
        """The hot path: as `_run`, for tasks without middleware and soft limit."""
        context, clock, cell, now = self._context, self._clock, self._cell, time.time
        task, definition, envelope = self._task, self._definition, self._envelope
        hooks, limit_bytes, decode = self._hooks, self._limit_bytes, self._decode
        told, number, finished_at = self._turns.turn_to(work.chunk), work.first - 1, now()
        for place, raw in enumerate(work.raws):
            if self._waiting:
                self._run_what_is_due()
                told, finished_at = self._turns.turn_to(work.chunk), now()
            number += 1
            started_at = clock[1] = finished_at
            cell[0] = number
            context.at = work, place
            try:
                arguments = decode(raw)
            except InvalidArguments as error:
                outcome: Outcome = _rejected(error)
            else:
                call = Admitted(task, definition, envelope, arguments, hooks, limit_bytes)
                outcome = invoke(call, context, catch_interrupts=True)
            finished_at = now()
            if type(outcome) is Returned:  # as settle decides
                told.numbers.append(number)
                told.payloads.append(bytes(outcome.payload))
                told.attempts.append(1)
                told.times.extend((started_at, finished_at))
                if finished_at > told.due_at:
                    told = self._turns.tell()
            else:
                self._decide(_item(work, place), outcome, started_at, finished_at)
                told = self._turns.turn_to(work.chunk)

    def _run_what_is_due(self) -> None:
        while self._waiting and self._waiting[0][0] <= time.time():
            self._run_due()

    def _run_due(self) -> None:
        self._run(heappop(self._waiting)[2])

    def _run(self, item: SingleItem) -> None:
        started_at = self._clock[1] = time.time()
        self._cell[0] = item.number
        self._context.at = item, 0
        outcome = self._outcome(item)
        self._decide(item, outcome, started_at, time.time())

    def _outcome(self, item: SingleItem) -> Outcome:
        try:
            arguments = self._decode(msgspec.Raw(item.raw))
        except InvalidArguments as error:
            return _rejected(error)
        call = Admitted(self._task, self._definition, self._envelope, arguments, self._hooks, self._limit_bytes)
        limit = self._definition.soft_limit
        if limit is None:
            return invoke(call, self._context, catch_interrupts=True)
        signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            return invoke(call, self._context, catch_interrupts=True)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _decide(self, item: SingleItem, outcome: Outcome, started_at: float, finished_at: float) -> None:
        random_fraction = random.random()  # noqa: S311 - jitter
        settlement = settle(
            outcome, self._policy, attempt=item.attempt, deaths=item.deaths, random_fraction=random_fraction
        )
        if not isinstance(outcome, Rejected):
            self._hooks.settle(self._context, settlement)
        match settlement:
            case Done(payload):
                self._turns.done(item, bytes(payload), started_at, finished_at)
            case Retry(delay_seconds=delay):
                self._wait(item, min(delay, self._job.retry_wait_seconds))
            case Dead(reason, error):
                attempts = item.attempt + 1
                self._turns.failed(item, Failed(item.number, reason, error, attempts, started_at, finished_at))
            case Cancelled(reason):
                error, attempts = TaskError("Cancelled", reason), item.attempt + 1
                gone = Failed(item.number, "cancelled", error, attempts, started_at, finished_at)
                self._turns.failed(item, gone)
            case Requeue() | Block():
                raise TypeError(f"{settlement} is not for an item.")

    def _wait(self, item: SingleItem, seconds: float) -> None:
        again = msgspec.structs.replace(item, attempt=item.attempt + 1)
        self._count += 1
        heappush(self._waiting, (time.time() + seconds, self._count, again))
        self._turns.parked(again)

    def _too_long(self, _number: int, _frame: FrameType | None) -> None:
        if self._context.is_running:
            raise SoftTimeLimitExceeded(f"The item ran past its soft limit of {self._definition.soft_limit:g} s.")


@dataclass(slots=True)
class PendingResults:
    """Results of a chunk that are not sent yet."""

    chunk: int
    due_at: float
    numbers: list[int] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    times: "array[float]" = field(default_factory=lambda: array("d"))
    failed: list[Failed] = field(default_factory=list)
    parked: list[tuple[int, int]] = field(default_factory=list)


class ResultSender:
    """Collects results, one chunk at a time, and sends them in batches."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._news = PendingResults(0, time.time() + SEND_SECONDS)

    @property
    def has_news(self) -> bool:
        return bool(self._news.numbers or self._news.failed or self._news.parked)

    def done(self, item: SingleItem, payload: bytes, started_at: float, finished_at: float) -> None:
        news = self.turn_to(item.chunk)
        news.numbers.append(item.number)
        news.payloads.append(payload)
        news.attempts.append(item.attempt + 1)
        news.times.extend((started_at, finished_at))
        self.tell_soon()

    def failed(self, item: SingleItem, failed: Failed) -> None:
        self.turn_to(item.chunk).failed.append(failed)
        self.tell_soon()

    def parked(self, item: SingleItem) -> None:
        self.turn_to(item.chunk).parked.append((item.number, item.attempt))
        self.tell_soon()

    def turn_to(self, chunk: int) -> PendingResults:
        if chunk != self._news.chunk:
            self.tell()
            self._news.chunk = chunk
        return self._news

    def tell_soon(self) -> None:
        if time.time() > self._news.due_at:
            self.tell()

    def tell(self) -> PendingResults:
        news = self._news
        if self.has_news:
            word = ItemResults(
                news.chunk, news.numbers, news.payloads, news.attempts, news.times.tobytes(), news.failed, news.parked
            )
            self._line.sendall(framed(word))
        self._news = PendingResults(news.chunk, time.time() + SEND_SECONDS)
        return self._news


def _item(word: ItemBlock | SingleItem, place: int) -> SingleItem:
    if isinstance(word, SingleItem):
        return word
    key = None if word.keys is None else word.keys[place]
    return SingleItem(word.chunk, word.first + place, word.raws[place], key, 0, 0)


def _rejected(error: InvalidArguments) -> Rejected:
    return Rejected("invalid-arguments", TaskError(type(error).__name__, str(error)))


def _nothing(_raw: bytes) -> dict[str, Any]:
    return {}
