"""A child process that runs items for a partition, and what must be known of them if it falls: the parent's side."""

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
from stem.client.compose import draft
from stem.client.policy import policy_for
from stem.core.errors import StemError
from stem.core.outcome import Cancelled, Dead, Died, Requeue, Retry, TimedOut
from stem.core.settle import settle
from stem.pipeline.bulk_words import Again, Failed, Frames, Job, Told, Work, frame, told
from stem.runtime.process import die_with, oom_kills

LEAST_AHEAD, MOST_AHEAD = 16, 20_000  # items given and not yet ended: about as many as end in this time
AHEAD_SECONDS = 0.1
MOST_PARKED = 50_000
LOOK_SECONDS = 0.25  # how often the limit of an item that runs is looked at
MOST_FALLS = 10  # of a child that was running nothing
BUFFER_BYTES = 1 << 20


class BulkBroken(StemError):
    """The process that runs the items falls while it runs none; see what the app's import starts."""


@dataclass(slots=True)
class Books:
    """What the child holds: enough to give all of it to another."""

    held: dict[int, Work | Again] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)  # of those that have spent some
    parked: set[int] = field(default_factory=set)

    def give(self, word: Work | Again) -> None:
        if isinstance(word, Again):
            self.held[word.number] = word
        else:
            self.held.update(dict.fromkeys(range(word.first, word.first + len(word.raws)), word))

    def hear(self, word: Told) -> None:
        for number in word.numbers:
            del self.held[number]
        for failed in word.failed:
            del self.held[failed.number]
        if self.parked or word.parked:
            self.parked.difference_update(word.numbers, [failed.number for failed in word.failed])
            self.parked.update(number for number, _ in word.parked)
            self.attempts.update(word.parked)

    def item(self, number: int) -> Again:
        """As it would have to be given again."""
        match self.held[number]:
            case Again() as item:
                return msgspec.structs.replace(item, attempt=self.attempts.get(number, item.attempt))
            case Work(chunk, first, raws, keys):
                place = number - first
                key = None if keys is None else keys[place]
                return Again(chunk, number, raws[place], key, self.attempts.get(number, 0), 0)

    def empty(self) -> list[Again]:
        items = [self.item(number) for number in self.held]
        self.held.clear()
        self.parked.clear()
        return items


class Hand:
    """Runs what it is given. An item that fells its process runs again alone, and after three deaths is given up, as a
    worker would have it; one that outruns its hard limit falls with its process."""

    def __init__(self, app: Stem, job: Job, partition: int) -> None:
        self._app, self._job, self._partition = app, job, partition
        definition = app.tasks[job.task].definition
        self._hard_limit = definition.hard_limit
        self._policy = policy_for(draft(job.task, definition.plan), definition.retry)
        self._books = Books()
        self._suspects: deque[tuple[float, Again]] = deque()  # due, item: each runs alone, when nothing else does
        self._falls = 0
        self._ahead = LEAST_AHEAD
        self._paced_at, self._ended = time.monotonic(), 0
        self._pid = 0  # started when there is something to run

    @property
    def holds(self) -> int:
        """Items that have not ended."""
        return len(self._books.held) + len(self._suspects)

    def wants(self) -> bool:
        return self._active <= self._ahead // 2 and len(self._books.parked) < MOST_PARKED

    def appetite(self) -> int:
        """How many more to give at once."""
        return max(1, self._ahead - self._active)

    @property
    def _active(self) -> int:
        return len(self._books.held) - len(self._books.parked)

    def give(self, word: Work | Again) -> None:
        if not self._pid:
            self._start()
        self._books.give(word)
        self._out += frame(word)

    def hear(self) -> Iterator[Told]:
        """What has become of items, after waiting a moment for it. Also what ended because their process fell."""
        for word in self._pump(LOOK_SECONDS):
            self._books.hear(word)
            self._ended += len(word.numbers)
            yield word
        self._pace()
        if self._has_fallen:
            yield from self._after_fall(self._buried())
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
        self._out, self._frames, self._has_fallen = bytearray(), Frames(), False
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
        """So that slow items are given a few at a time, and quick ones do not wait for us."""
        now = time.monotonic()
        if now - self._paced_at >= AHEAD_SECONDS:
            self._ahead = max(LEAST_AHEAD, min(MOST_AHEAD, self._ended))
            self._paced_at, self._ended = now, 0

    def _pump(self, seconds: float) -> Iterator[Told]:
        """Send what can be sent, hear what there is; waits only if there is neither."""
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
                self._has_fallen = True
                return
            yield from map(told, self._frames.feed(data))

    def _buried(self) -> Died:
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)  # what it may have started
        _, status = os.waitpid(self._pid, 0)
        self._line.close()
        return Died(os.waitstatus_to_exitcode(status), out_of_memory=oom_kills() > self._oom_kills)

    def _overrun(self) -> float | None:
        limit = self._hard_limit
        is_over = limit is not None and self._cell[0] >= 0 and time.time() - self._clock[1] > limit
        return limit if is_over else None

    def _after_overrun(self, limit: float) -> Iterator[Told]:
        yield from self._after_fall(TimedOut(limit), kill=True)

    def _after_fall(self, outcome: Died | TimedOut, *, kill: bool = False) -> Iterator[Told]:
        number, started_at = self._cell[0], self._clock[1]
        if kill:
            os.killpg(self._pid, signal.SIGKILL)
            for word in self._last_words():
                self._books.hear(word)
                yield word
            self._buried()
        items = self._books.empty()
        suspect = next((item for item in items if item.number == number), None)
        self._falls += suspect is None
        if self._falls > MOST_FALLS:
            raise BulkBroken(
                f"The process that runs the items of {self._job.task} fell {self._falls} times, running none."
            )
        self._start()
        for item in items:
            if item is not suspect:
                self.give(item)
        if suspect is not None:
            yield from self._judged(suspect, outcome, started_at)

    def _last_words(self) -> Iterator[Told]:
        """What was said before the end came."""
        end = time.time() + 5.0
        while not self._has_fallen and time.time() < end:
            yield from self._pump(LOOK_SECONDS)

    def _judged(self, item: Again, outcome: Died | TimedOut, started_at: float) -> Iterator[Told]:
        now = time.time()
        roll = random.random()  # noqa: S311 - jitter
        settlement = settle(outcome, self._policy, attempt=item.attempt, deaths=item.deaths, roll=roll)
        match settlement:
            case Dead(reason, error):
                attempts = item.attempt + 1 + item.deaths
                yield _told(item, Failed(item.number, reason, error, attempts, started_at, now))
            case Retry(delay_seconds=delay):
                self._suspect(msgspec.structs.replace(item, attempt=item.attempt + 1), delay)
            case Requeue(delay_seconds=delay):
                self._suspect(msgspec.structs.replace(item, deaths=item.deaths + 1), delay)
            case Cancelled() | _:
                raise TypeError(f"{settlement} does not follow from {outcome}.")

    def _suspect(self, item: Again, delay_seconds: float) -> None:
        self._suspects.append((time.time() + min(delay_seconds, self._job.retry_wait_seconds), item))


def _told(item: Again, failed: Failed) -> Told:
    return Told(item.chunk, [], [], [], b"", [failed], [])


def _be_child(app: Stem, job: Job, partition: int, line: socket.socket, cell: memoryview, parent: int) -> None:
    """Never returns: what stands behind belongs to the parent."""
    code = 70
    try:
        os.setsid()
        die_with(parent)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        from stem.pipeline.bulk_runner import Runner

        # What the parent has will not become garbage here, and items leave little of it.
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        Runner(app, job, partition, line, cell).serve()
        code = 0
    except (BrokenPipeError, ConnectionResetError):
        code = 0  # the parent has gone
    except BaseException:  # noqa: BLE001 - nothing may unwind into the parent's code
        traceback.print_exc()
    finally:
        os._exit(code)
