"""The isolates and what they hold: hands out runs, hears of endings, acts on limits, replaces the fallen. Asks no store.

All of it happens in one thread; others post to it. So nothing here is half done when looked at from here.
"""

import logging
import os
import random
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from threading import Condition, Thread
from typing import Protocol

import msgspec

from stem.client.policy import policy_for
from stem.core.delivery import Ending, Report
from stem.core.errors import EnvelopeUnreadable, StemError
from stem.core.outcome import Interrupted, Outcome, Settlement, TimedOut
from stem.core.retry import Exponential
from stem.core.settle import Policy, settle
from stem.runtime.process import oom_kills
from stem.worker import wire
from stem.worker.cell import REVOKED, SOFT_LIMIT
from stem.worker.deaths import estate
from stem.worker.guard import LOOK_SECONDS, Begun, InTheWay, Limits, Overdue, SoftlyOverdue, Told, look
from stem.worker.held import Held
from stem.worker.nursery import Child, Nursery, make_child
from stem.worker.room import Pace, Room, choose
from stem.worker.server import Born, Exited, Loaded, Refused

log = logging.getLogger("stem.worker")
output_log = logging.getLogger("stem.task")

STILLBIRTHS = 5  # in a row, before the worker gives up
READ_BYTES = 1 << 18
HOARD_SECONDS = 1.0  # how long a task may wait here for isolates that end nothing

# Opens a lane in this process, of the given descriptors and slots; returns how to interrupt what runs there.
OpenLane = Callable[[list[int], int], Callable[[], None]]


class Listener(Protocol):
    """Whoever tells the store what the pool finds out. Called from the pool's thread; must not block."""

    def ended(self, endings: list[tuple[Held, Ending]]) -> None: ...

    def begun(self, helds: list[Held]) -> None: ...

    def reported(self, reports: list[Report]) -> None: ...

    def asked(self, child: Child, word: wire.AskBody | wire.AskPush, body: bytes) -> None: ...

    def extended(self, held: Held, seconds: float) -> None: ...

    def has_room(self) -> None: ...

    def is_stuck(self) -> None: ...

    def failed(self, sentence: str) -> None: ...


class Pool:
    def __init__(
        self,
        make_nursery: Callable[[], Nursery],
        listener: Listener,
        *,
        concurrency: int,
        async_concurrency: int,
        lane_concurrency: int,
        limits: Limits,
        open_lane: OpenLane | None = None,
    ) -> None:
        """With `open_lane` all tasks run in this process, and there are no isolates."""
        self._make_nursery = make_nursery
        self._listener = listener
        self.concurrency = concurrency
        self._async_concurrency = async_concurrency
        self._lane_concurrency = lane_concurrency
        self._limits = limits
        self._open_own_lane = open_lane
        self._interrupt_own_lane: Callable[[], None] | None = None
        self._nursery: Nursery | None = None
        self._rooms: dict[int, Room] = {}  # by token
        self._by_pid: dict[int, Room] = {}
        self._backlog: deque[Held] = deque()
        self._inline: deque[Held] = deque()  # those that ask for the lane
        self.held: dict[int, Held] = {}  # all, from the offer until they are settled
        self._offered = 0  # counted by whoever offers
        self._finished = 0  # counted by the pool's thread
        self._finished_at = 0.0
        self._pace = Pace()
        self._endings: list[tuple[Held, Ending]] = []
        self._posts: deque[Callable[[], object]] = deque()
        self._selector = selectors.DefaultSelector()
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._look_at = 0.0
        self._stillbirths = 0
        self._oom_kills = oom_kills()
        self._is_draining = False
        self._is_stopped = False
        self._quiet = Condition()
        self._thread = Thread(target=self._run, name="pool", daemon=True)

    # For other threads

    def start(self, nursery: Nursery | None) -> None:
        self._nursery = nursery
        self._thread.start()

    def offer(self, helds: list[Held]) -> None:
        self._offered += len(helds)
        for held in helds:
            self.held[held.number] = held
        self.post(partial(self._take, helds))

    def settled(self, helds: Sequence[Held]) -> None:
        """The store has them; they are ours no longer."""
        for held in helds:
            self.held.pop(held.number, None)
        if not self.held:
            with self._quiet:
                self._quiet.notify_all()

    def lose(self, helds: list[Held]) -> None:
        """Their leases belong to others now: stop them, and tell nobody how they end."""
        self.post(partial(self._lose, helds))

    def drain(self, reason: str) -> None:
        """Hand out nothing more; what has not begun goes back."""
        self.post(partial(self._drain, reason))

    def cut_off(self, reason: str) -> None:
        """End what runs; it goes back, too."""
        self.post(partial(self._cut_off, reason))

    def wait_until_quiet(self, timeout_seconds: float | None) -> bool:
        """True: nothing is held any more."""
        with self._quiet:
            return self._quiet.wait_for(lambda: not self.held, timeout_seconds)

    def stop(self) -> None:
        self.post(self._stop)
        self._thread.join(timeout=10)

    def post(self, action: Callable[[], object]) -> None:
        self._posts.append(action)
        with suppress(OSError):  # full: it is awake already; closed: it has ended
            self._woken.send(b"!", socket.MSG_DONTWAIT)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def finished(self) -> int:
        """How many have ended here so far."""
        return self._finished

    @property
    def load(self) -> int:
        """How many wait or run here."""
        return self._offered - self._finished

    @property
    def running(self) -> list[tuple[Held, float]]:
        """What runs at this moment, and for how long."""
        now = time.monotonic()
        return [
            (held, now - room.child.cell.times(slot)[0])
            for room in list(self._rooms.values())
            for slot, held in list(room.running())
        ]

    @property
    def pids(self) -> list[int]:
        return list(self._by_pid)

    # The thread

    def _run(self) -> None:
        self._selector.register(self._wake, selectors.EVENT_READ, self._clear)
        try:
            self._open()
            while not self._is_stopped:
                self._go_round()
        finally:
            self._close()

    def _go_round(self) -> None:
        for key, _ in self._selector.select(self._patience()):
            key.data()
        while self._posts:
            self._posts.popleft()()
        self._look()
        self._dispatch()
        self._hand_over()

    def _patience(self) -> float | None:
        return max(0.0, self._look_at - time.monotonic()) if self._look_at else None

    def _clear(self) -> None:
        with suppress(BlockingIOError):
            self._wake.recv(4096)

    def _hand_over(self) -> None:
        if self._endings:
            endings, self._endings = self._endings, []
            self._listener.ended(endings)
        self._listener.has_room()

    # Handing out

    def _take(self, helds: list[Held]) -> None:
        if self._is_draining:
            self._return(helds, "the worker is shutting down")
            return
        for held in helds:
            self._line_of(held).append(held)

    def _line_of(self, held: Held) -> deque[Held]:
        return self._inline if held.is_inline or self._open_own_lane is not None else self._backlog

    def _dispatch(self) -> None:
        if self._inline:
            self._dispatch_inline()
        backlog, pace = self._backlog, self._pace
        rooms = [room for room in self._rooms.values() if not room.child.is_lane] if backlog else []
        while backlog:
            room = choose(rooms, backlog[0], pace)
            if room is None or not self._assign(room, backlog[0]):
                break
            backlog.popleft()

    def _dispatch_inline(self) -> None:
        lane = next((room for room in self._rooms.values() if room.child.is_lane and not room.is_retired), None)
        if lane is None:
            self._bear(is_lane=True)
            return
        while self._inline and choose([lane], self._inline[0], self._pace) and self._assign(lane, self._inline[0]):
            self._inline.popleft()

    def _assign(self, room: Room, held: Held) -> bool:
        if not room.child.send(wire.run_of(held.number, held.delivery)):
            return False
        if not room.assigned:
            room.is_shared = held.is_async or room.child.is_lane
        room.assigned[held.number] = held
        self._look_soon()
        return True

    def _put_back(self, helds: list[Held]) -> None:
        """Ahead of what was claimed later."""
        for held in reversed(helds):
            self._line_of(held).appendleft(held)

    # Hearing

    def _hear(self, room: Room) -> None:
        if room.child.token not in self._rooms:
            return  # buried earlier in this round
        try:
            count = room.child.line.recv_into(
                self._buffer
            )  # one for all: a new one each time costs more than the words
        except BlockingIOError:
            return
        except ConnectionError:
            count = 0
        if count:
            try:
                for word in room.child.frames.words(bytes(self._buffer[:count])):
                    self._heed(room, word)
            except (ValueError, msgspec.MsgspecError):
                self._silence(room)  # a task has written into its line
        else:
            self._silence(room)

    def _silence(self, room: Room) -> None:
        """It cannot tell us anything any more, whether it has died or a task has spoilt its line."""
        self._selector.unregister(room.child.line)
        room.child.kill()

    def _heed(self, room: Room, word: wire.Word) -> None:
        match word:
            case wire.Ended():
                self._ended(room, word)
            case wire.Ready():
                room.is_ready = True
                self._stillbirths = 0
            case wire.Extend(number, seconds):
                if number in room.assigned:
                    self._listener.extended(room.assigned[number], seconds)
            case wire.AskBody(number):
                body = room.assigned[number].delivery.body if number in room.assigned else b""
                self._listener.asked(room.child, word, body)
            case wire.AskPush():
                self._listener.asked(room.child, word, b"")

    def _ended(self, room: Room, word: wire.Ended) -> None:
        settlement = wire.settlement_of(word)
        held = room.assigned.pop(word.number, None)
        if held is None or held.is_lost:
            return
        if word.run_seconds is not None:
            self._pace.learn(held.delivery.name, word.run_seconds)
        self._finish(held, Ending(held.lease, settlement, word.run_seconds))

    def _end(self, held: Held, outcome: Outcome, run_seconds: float | None) -> None:
        """An ending that the isolate could not tell."""
        if not held.is_lost:
            self._finish(held, Ending(held.lease, _decided(held, outcome), run_seconds))

    def _finish(self, held: Held, ending: Ending) -> None:
        held.is_ended = True
        self._finished += 1
        self._finished_at = time.monotonic()
        self._endings.append((held, ending))

    def _return(self, helds: list[Held], reason: str) -> None:
        for held in helds:
            self._end(held, Interrupted(reason), None)

    def _hear_output(self, room: Room) -> None:
        if room.child.token not in self._rooms:
            return
        try:
            data = os.read(room.child.output, READ_BYTES)
        except BlockingIOError:
            return
        self._tell_output(room, room.child.lines.feed(data) if data else room.child.lines.end())
        if not data:
            self._selector.unregister(room.child.output)

    def _tell_output(self, room: Room, lines: Iterable[tuple[str, str]]) -> None:
        for task_id, line in lines:
            running = [held.lease.id for _, held in room.running()] if not task_id else []
            output_log.info("%s", line, extra={"task_id": running[0] if len(running) == 1 else task_id})

    # Limits

    def _look_soon(self) -> None:
        self._look_at = self._look_at or time.monotonic() + LOOK_SECONDS

    def _look(self) -> None:
        now = time.monotonic()
        if not self._look_at or now < self._look_at:
            return
        begun: list[Held] = []
        reports: list[Report] = []
        for room in list(self._rooms.values()):
            for finding in look(room, now, self._limits) if room.assigned else ():
                match finding:
                    case Overdue(slot, held, seconds):
                        self._terminate(room, slot, held, TimedOut(seconds))
                    case SoftlyOverdue(slot, held):
                        held.is_soft = True
                        self._interrupt(room, slot, held, SOFT_LIMIT)
                    case Begun(held):
                        begun.append(held)
                    case Told(report):
                        reports.append(report)
                    case InTheWay():
                        self._put_back(room.take_back())
        if begun:
            self._listener.begun(begun)
        if reports:
            self._listener.reported(reports)
        if self._backlog and now - max(self._finished_at, self._backlog[0].claimed_at) > HOARD_SECONDS:
            self._unhoard()
        is_busy = any(room.assigned for room in self._rooms.values())
        self._look_at = now + LOOK_SECONDS if is_busy else 0.0

    def _unhoard(self) -> None:
        """Everybody here is busy for long; somebody else may not be."""
        helds = list(self._backlog)
        self._backlog.clear()
        self._listener.is_stuck()
        self._return(helds, "claimed too early")

    def _interrupt(self, room: Room, slot: int, held: Held, why: int) -> None:
        room.child.cell.interrupt(slot, held.number, why)
        if room.child.is_lane and self._interrupt_own_lane is not None:
            self._interrupt_own_lane()
        else:
            room.child.interrupt()

    def _terminate(self, room: Room, slot: int, held: Held, outcome: Outcome) -> None:
        """Kill the isolate if it is still at this run: with its inbox empty it cannot get to another one meanwhile."""
        self._put_back(room.take_back())
        if room.slot_of(held) != slot or held.verdict is not None:
            return
        held.verdict = outcome
        if room.child.is_lane and self._open_own_lane is not None:
            self._abandon(room, slot, held, outcome)
            return
        log.info("task.killed id=%s isolate=%d outcome=%s", held.lease.id, room.child.pid, type(outcome).__name__)
        room.is_retired = True
        room.child.kill()

    def _abandon(self, room: Room, slot: int, held: Held, outcome: Outcome) -> None:
        """A thread of this very process cannot be killed: it is told to end, and what it brings is ignored."""
        self._interrupt(room, slot, held, REVOKED)
        del room.assigned[held.number]
        self._end(held, outcome, time.monotonic() - room.child.cell.times(slot)[0])

    def _lose(self, helds: list[Held]) -> None:
        for held in helds:
            if held.is_lost or held.is_ended:
                continue
            held.is_lost = True
            self._finished += 1
            self.settled([held])
            room = next((room for room in self._rooms.values() if held.number in room.assigned), None)
            if room is not None:
                self._stop_lost(room, held)
        self._backlog = deque(held for held in self._backlog if not held.is_lost)
        self._inline = deque(held for held in self._inline if not held.is_lost)

    def _stop_lost(self, room: Room, held: Held) -> None:
        slot = room.slot_of(held)
        if slot is None:
            self._put_back(room.take_back())
        elif room.is_shared:
            self._interrupt(room, slot, held, REVOKED)
        else:
            self._terminate(room, slot, held, Interrupted("the lease was lost"))

    # Births and deaths

    def _open(self) -> None:
        if self._open_own_lane is not None:
            self._bear(is_lane=True)
            return
        self._watch_nursery()
        for _ in range(self.concurrency):
            self._bear()

    def _bear(self, *, is_lane: bool = False) -> None:
        slots = self._lane_concurrency if is_lane else self._async_concurrency
        if self._open_own_lane is not None:
            child, descriptors = make_child(slots, is_lane=True)
            self._interrupt_own_lane = self._open_own_lane(descriptors, slots)
        elif self._nursery is not None:
            child = self._nursery.start(slots, is_lane=is_lane)
        room = self._rooms[child.token] = Room(child, slots)
        self._selector.register(child.line, selectors.EVENT_READ, partial(self._hear, room))
        self._selector.register(child.output, selectors.EVENT_READ, partial(self._hear_output, room))

    def _watch_nursery(self) -> None:
        if self._nursery is not None:
            self._selector.register(self._nursery.control, selectors.EVENT_READ, self._hear_nursery)

    def _hear_nursery(self) -> None:
        if self._nursery is None:
            return
        try:
            replies = self._nursery.replies()
        except (EOFError, OSError):
            self._replace_nursery()
            return
        for reply in replies:
            match reply:
                case Born(token, pid):
                    self._rooms[token].child.pid = pid
                    self._by_pid[pid] = self._rooms[token]
                case Exited(pid, exit_code):
                    self._exited(self._by_pid.pop(pid), exit_code)
                    self._nursery.bury(pid)
                case Loaded() | Refused():
                    pass

    def _exited(self, room: Room, exit_code: int) -> None:
        self._bury(room, exit_code)
        if not room.is_ready:
            self._stillbirths += 1
        if self._stillbirths >= STILLBIRTHS:
            self._listener.failed(f"Isolates end (exit code {exit_code}) before they are ready; see what they wrote.")
        elif not self._is_stopped and not room.child.is_lane:
            self._bear()

    def _bury(self, room: Room, exit_code: int) -> None:
        """What it said last still counts; only then is it asked what it leaves behind."""
        child = room.child
        child.kill()  # whatever it has left in its group
        self._hear_the_last(room)
        killed = oom_kills()
        is_oom = exit_code == -9 and not room.is_retired and killed > self._oom_kills
        self._oom_kills = killed
        left = estate(room, exit_code, out_of_memory=is_oom)
        for held, outcome, ran in left.ended:
            if held.verdict is None and not room.is_retired:
                log.warning("isolate.died pid=%d code=%d oom=%s task=%s", child.pid, exit_code, is_oom, held.lease.id)
            self._end(held, outcome, ran)
        self._put_back([held for held in left.unstarted if not held.is_lost])
        if self._is_draining:
            self._drain("the worker is shutting down")
        self._forget(room)

    def _hear_the_last(self, room: Room) -> None:
        with suppress(OSError, ValueError, msgspec.DecodeError):  # cut off in the middle of a word
            while data := room.child.line.recv(READ_BYTES):
                for word in room.child.frames.words(data):
                    self._heed(room, word)
        with suppress(OSError):
            # Once: that is more than a pipe holds, and a child that got away may go on writing for ever.
            self._tell_output(room, room.child.lines.feed(os.read(room.child.output, READ_BYTES)))
        self._tell_output(room, room.child.lines.end())

    def _forget(self, room: Room) -> None:
        for end in (room.child.line, room.child.output):
            with suppress(KeyError):
                self._selector.unregister(end)
        room.child.close()
        del self._rooms[room.child.token]

    def _replace_nursery(self) -> None:
        """The fork server is gone, and by the kernel's hand its isolates with it."""
        if self._nursery is None or self._is_stopped:
            return
        log.error("fork-server.died; starting another")
        self._selector.unregister(self._nursery.control)
        self._nursery.close()
        self._by_pid.clear()
        for room in list(self._rooms.values()):
            room.child.kill()  # the kernel may not have come round to it yet, and what it runs is about to run again
            self._bury(room, -9)
        try:
            self._nursery = self._make_nursery()
            self._nursery.manifest()
        except StemError as error:
            self._listener.failed(str(error))
            return
        self._open()

    def _drain(self, reason: str) -> None:
        self._is_draining = True
        for room in self._rooms.values():
            self._put_back(room.take_back())
        helds = [*self._backlog, *self._inline]
        self._backlog.clear()
        self._inline.clear()
        self._return(helds, reason)

    def _cut_off(self, reason: str) -> None:
        self._drain(reason)
        for room in list(self._rooms.values()):
            for held in room.assigned.values():
                held.verdict = held.verdict or Interrupted(reason)
            if room.assigned and not (room.child.is_lane and self._open_own_lane is not None):
                room.is_retired = True
                room.child.kill()
            else:
                for slot, held in list(room.running()):
                    self._abandon(room, slot, held, Interrupted(reason))

    def _stop(self) -> None:
        self._is_stopped = True

    def _close(self) -> None:
        for room in list(self._rooms.values()):
            self._forget(room)
        if self._nursery is not None:
            self._nursery.close()
        self._selector.close()
        self._wake.close()
        self._woken.close()


def _decided(held: Held, outcome: Outcome) -> Settlement:
    """A strategy that is a function stays with the code; for one that was killed the default's delays count."""
    delivery, retry = held.delivery, held.facts.retry if held.facts is not None else None
    try:
        policy = policy_for(delivery.envelope, retry or Exponential())
    except EnvelopeUnreadable:
        policy = Policy()
    roll = random.random()  # noqa: S311 - no secret
    return settle(outcome, policy, attempt=delivery.attempt, deaths=delivery.deaths, roll=roll)
