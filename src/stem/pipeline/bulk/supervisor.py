"""Supervise the child process that runs the items of a partition, and recover its items if it dies."""

import gc
import mmap
import os
import random
import select
import signal
import socket
import time
import traceback
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from stem.client.app import Stem
from stem.client.send.compose import envelope_template
from stem.client.task.policy import policy_for
from stem.core.decisions.settle import settle
from stem.core.errors import StemError
from stem.core.outcome import Cancelled, Dead, Died, Requeue, Retry, TimedOut
from stem.pipeline.bulk.protocol import Failed, ItemBlock, ItemResults, Job, SingleItem, decode_results, framed
from stem.runtime.framing import FrameReader
from stem.runtime.process import die_with, oom_kills

LEAST_AHEAD, MOST_AHEAD = 16, 20_000  # items given and not ended: about as many as end in AHEAD_SECONDS
AHEAD_SECONDS = 0.1
MOST_PARKED = 50_000
LOOK_SECONDS = 0.25  # how often hard limits are checked
MAX_IDLE_CRASHES = 10  # crashes of a child that ran no item
BUFFER_BYTES = 1 << 20


class BulkBroken(StemError):
    """The process that runs the items dies while it runs none; check what importing the app starts."""


@dataclass(slots=True)
class InFlightItems:
    """The items that the child has: enough to give all of them to another child."""

    held: dict[int, ItemBlock | SingleItem] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)  # of items that have been retried
    parked: set[int] = field(default_factory=set)

    def give(self, word: ItemBlock | SingleItem) -> None:
        if isinstance(word, SingleItem):
            self.held[word.number] = word
        else:
            self.held.update(dict.fromkeys(range(word.first, word.first + len(word.raws)), word))

    def hear(self, word: ItemResults) -> None:
        for number in word.numbers:
            del self.held[number]
        for failed in word.failed:
            del self.held[failed.number]
        if self.parked or word.parked:
            self.parked.difference_update(word.numbers, [failed.number for failed in word.failed])
            self.parked.update(number for number, _ in word.parked)
            self.attempts.update(word.parked)

    def item(self, number: int) -> SingleItem:
        """The item, as another child needs it."""
        match self.held[number]:
            case SingleItem() as item:
                return msgspec.structs.replace(item, attempt=self.attempts.get(number, item.attempt))
            case ItemBlock(chunk, first, raws, keys):
                place = number - first
                key = None if keys is None else keys[place]
                return SingleItem(chunk, number, raws[place], key, self.attempts.get(number, 0), 0)

    def empty(self) -> list[SingleItem]:
        items = [self.item(number) for number in self.held]
        self.held.clear()
        self.parked.clear()
        return items


class ItemSupervisor:
    """Runs items in a child process. An item whose process died runs again alone, and becomes a dead letter after too many
    deaths, as on a worker. At the hard limit of an item its process is killed."""

    def __init__(self, app: Stem, job: Job, partition: int) -> None:
        self._app, self._job, self._partition = app, job, partition
        definition = app.tasks[job.task].definition
        self._hard_limit = definition.hard_limit
        self._policy = policy_for(envelope_template(job.task, definition.plan), definition.retry)
        self._books = InFlightItems()
        self._suspects: deque[tuple[float, SingleItem]] = (
            deque()
        )  # (due, item): each runs alone, when nothing else does
        self._idle_crashes = 0
        self._ahead = LEAST_AHEAD
        self._paced_at, self._ended = time.monotonic(), 0
        self._pid = 0  # started when there is something to run

    @property
    def holds(self) -> int:
        """The number of items that have not ended."""
        return len(self._books.held) + len(self._suspects)

    def wants(self) -> bool:
        return self._active <= self._ahead // 2 and len(self._books.parked) < MOST_PARKED

    def capacity(self) -> int:
        """How many more items to give at once."""
        return max(1, self._ahead - self._active)

    @property
    def _active(self) -> int:
        return len(self._books.held) - len(self._books.parked)

    def give(self, word: ItemBlock | SingleItem) -> None:
        if not self._pid:
            self._start()
        self._books.give(word)
        self._out += framed(word)

    def hear(self) -> Iterator[ItemResults]:
        """Wait a moment for results, and yield them; also those of items whose process died."""
        for word in self._pump(LOOK_SECONDS):
            self._books.hear(word)
            self._ended += len(word.numbers)
            yield word
        self._pace()
        if self._has_died:
            yield from self._after_death(self._reap())
        elif (limit := self._overrun()) is not None:
            yield from self._after_overrun(limit)
        if not self._books.held and self._suspects and self._suspects[0][0] <= time.time():
            self.give(self._suspects.popleft()[1])

    def close(self) -> None:
        if not self._pid:
            return
        self._line.close()
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _start(self) -> None:
        self._shared = mmap.mmap(-1, 16)
        self._cell = memoryview(self._shared).cast("q")
        self._clock = memoryview(self._shared).cast("d")
        self._cell[0] = -1
        self._out, self._frames, self._has_died = bytearray(), FrameReader(), False
        self._oom_kills = oom_kills()
        self._line, theirs = socket.socketpair()
        for end in (self._line, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._line.close()
            _be_child(self._app, self._job, self._partition, theirs, memoryview(self._shared), parent)
        theirs.close()
        self._line.setblocking(False)

    def _pace(self) -> None:
        """Give slow items a few at a time, and fast ones many."""
        now = time.monotonic()
        if now - self._paced_at >= AHEAD_SECONDS:
            self._ahead = max(LEAST_AHEAD, min(MOST_AHEAD, self._ended))
            self._paced_at, self._ended = now, 0

    def _pump(self, seconds: float) -> Iterator[ItemResults]:
        """Send and receive what is possible; wait only if nothing is."""
        sending = [self._line] if self._out else []
        readable, writable, _ = select.select([self._line], sending, [], seconds)
        if writable:
            with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
                del self._out[: self._line.send(memoryview(self._out)[:BUFFER_BYTES])]
        while readable:
            try:
                data = self._line.recv(BUFFER_BYTES)
            except BlockingIOError:
                return
            except ConnectionResetError:
                data = b""
            if not data:
                self._has_died = True
                return
            yield from map(decode_results, self._frames.feed(data))

    def _reap(self) -> Died:
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)  # and the processes that it started
        _, status = os.waitpid(self._pid, 0)
        self._line.close()
        return Died(os.waitstatus_to_exitcode(status), out_of_memory=oom_kills() > self._oom_kills)

    def _overrun(self) -> float | None:
        limit = self._hard_limit
        is_over = limit is not None and self._cell[0] >= 0 and time.time() - self._clock[1] > limit
        return limit if is_over else None

    def _after_overrun(self, limit: float) -> Iterator[ItemResults]:
        yield from self._after_death(TimedOut(limit), kill=True)

    def _after_death(self, outcome: Died | TimedOut, *, kill: bool = False) -> Iterator[ItemResults]:
        number, started_at = self._cell[0], self._clock[1]
        if kill:
            os.killpg(self._pid, signal.SIGKILL)
            for word in self._remaining_results():
                self._books.hear(word)
                yield word
            self._reap()
        items = self._books.empty()
        suspect = next((item for item in items if item.number == number), None)
        self._idle_crashes += suspect is None
        if self._idle_crashes > MAX_IDLE_CRASHES:
            raise BulkBroken(
                f"The process that runs the items of {self._job.task} died {self._idle_crashes} times without running one."
            )
        self._start()
        for item in items:
            if item is not suspect:
                self.give(item)
        if suspect is not None:
            yield from self._judged(suspect, outcome, started_at)

    def _remaining_results(self) -> Iterator[ItemResults]:
        """The results that were sent before the kill."""
        end = time.time() + 5.0
        while not self._has_died and time.time() < end:
            yield from self._pump(LOOK_SECONDS)

    def _judged(self, item: SingleItem, outcome: Died | TimedOut, started_at: float) -> Iterator[ItemResults]:
        now = time.time()
        random_fraction = random.random()  # noqa: S311 - jitter
        settlement = settle(
            outcome, self._policy, attempt=item.attempt, deaths=item.deaths, random_fraction=random_fraction
        )
        match settlement:
            case Dead(reason, error):
                attempts = item.attempt + 1 + item.deaths
                yield _failure(item, Failed(item.number, reason, error, attempts, started_at, now))
            case Retry(delay_seconds=delay):
                self._suspect(msgspec.structs.replace(item, attempt=item.attempt + 1), delay)
            case Requeue(delay_seconds=delay):
                self._suspect(msgspec.structs.replace(item, deaths=item.deaths + 1), delay)
            case Cancelled() | _:
                raise TypeError(f"{settlement} does not follow from {outcome}.")

    def _suspect(self, item: SingleItem, delay_seconds: float) -> None:
        self._suspects.append((time.time() + min(delay_seconds, self._job.retry_wait_seconds), item))


def _failure(item: SingleItem, failed: Failed) -> ItemResults:
    return ItemResults(item.chunk, [], [], [], b"", [failed], [])


def _be_child(app: Stem, job: Job, partition: int, line: socket.socket, cell: memoryview, parent: int) -> None:
    """Run items until the parent closes the line. Never returns."""
    code = 70
    try:
        os.setsid()
        die_with(parent)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        from stem.pipeline.bulk.runner import ItemRunner

        # Objects of the parent never become garbage here, and items leave little.
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        ItemRunner(app, job, partition, line, cell).serve()
        code = 0
    except (BrokenPipeError, ConnectionResetError):
        code = 0  # the parent has gone
    except BaseException:  # noqa: BLE001 - nothing may unwind into the parent's code
        traceback.print_exc()
    finally:
        os._exit(code)
