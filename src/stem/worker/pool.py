"""The isolates and what they hold: hands out runs, hears of endings, keeps limits, replaces the fallen. Asks no store.

All of it happens in one thread; others post to it. So nothing here is ever half done when looked at from here.
"""

import logging
import os
import random
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from threading import Condition, Thread
from typing import Protocol

import msgspec

from stem.client.policy import policy_for
from stem.core.delivery import Ending, Report
from stem.core.errors import EnvelopeUnreadable
from stem.core.outcome import Died, Interrupted, Outcome, TimedOut
from stem.core.retry import Exponential
from stem.core.settle import Policy, settle
from stem.runtime.process import oom_kills
from stem.worker import wire
from stem.worker.cell import REVOKED, SOFT_LIMIT
from stem.worker.held import Held
from stem.worker.nursery import Child, Nursery, make_child
from stem.worker.output import Lines
from stem.worker.room import Pace, Room, choose
from stem.worker.server import Born, Exited, Loaded, Refused

log = logging.getLogger("stem.worker")
output_log = logging.getLogger("stem.task")

GUARD_SECONDS = 0.05
MARK_SECONDS = 0.1  # a run that takes longer is said to run before it ends
LONG_SECONDS = 0.05  # a run that takes longer gives back what waits behind it
TERMINATE_SECONDS = 5.0  # from being told to stop to being killed
BIRTH_SECONDS = 30.0
STILLBIRTHS = 5  # in a row, before the worker gives up
READ_BYTES = 1 << 18


class Listener(Protocol):
    """Whoever writes to the store what the pool finds out. Called from the pool's thread; must not block."""

    def ended(self, endings: list[tuple[Held, Ending]]) -> None: ...

    def started(self, helds: list[Held]) -> None: ...

    def reported(self, reports: list[Report]) -> None: ...

    def asked(self, child: Child, word: "wire.AskBody | wire.AskPush", body: bytes) -> None: ...

    def extended(self, held: Held, seconds: float) -> None: ...

    def has_room(self) -> None: ...

    def failed(self, sentence: str) -> None: ...


class Pool:
    def __init__(
        self,
        nursery: Callable[[], Nursery],
        listener: Listener,
        *,
        concurrency: int,
        async_concurrency: int,
        lane_concurrency: int,
        hard_limit: float | None,
        soft_limit: float | None,
        lane: Callable[[list[int], int], Callable[[], None]] | None = None,
    ) -> None:
        """`lane`, where given, opens a lane in this process and returns how to interrupt it; then there are no isolates."""
        self._make_nursery = nursery
        self._listener = listener
        self.concurrency = concurrency
        self._async_concurrency = async_concurrency
        self._lane_concurrency = lane_concurrency
        self._hard_limit = hard_limit
        self._soft_limit = soft_limit
        self._lane = lane
        self._interrupt_lane: Callable[[], None] | None = None
        self._nursery: Nursery | None = None
        self._rooms: dict[int, Room] = {}  # by token
        self._by_pid: dict[int, Room] = {}
        self._backlog: deque[Held] = deque()
        self._inline: deque[Held] = deque()
        self.held: dict[int, Held] = {}  # all, from the offer until `settled`
        self._offered = 0  # counted by whoever offers
        self._finished = 0  # counted by the pool's thread
        self._pace = Pace()
        self._endings: list[tuple[Held, Ending]] = []
        self._posts: deque[Callable[[], object]] = deque()
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._guard_at = 0.0
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
        """End what runs, and have it run again elsewhere."""
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
        try:
            self._woken.send(b"!", socket.MSG_DONTWAIT)
        except BlockingIOError:
            pass  # it is awake already

    @property
    def running(self) -> list[tuple[Held, float]]:
        """What runs now, and for how long; as of this moment."""
        now, found = time.monotonic(), []
        for room in list(self._rooms.values()):
            for slot in range(room.child.cell.slots):
                held = room.assigned.get(room.child.cell.running(slot))
                if held is not None:
                    found.append((held, now - room.child.cell.times(slot)[0]))
        return found

    @property
    def load(self) -> int:
        """How many wait or run here."""
        return self._offered - self._finished

    @property
    def pids(self) -> list[int]:
        return list(self._by_pid)

    # The thread

    def _run(self) -> None:
        self._selector.register(self._wake, selectors.EVENT_READ, self._clear)
        if self._nursery is not None:
            self._watch_nursery(self._nursery)
        if self._lane is not None:
            self._open_lane()
        else:
            for _ in range(self.concurrency):
                self._bear()
        while not self._is_stopped:
            for key, _ in self._selector.select(self._patience()):
                key.data()
            while self._posts:
                self._posts.popleft()()
            self._guard()
            self._dispatch()
            self._hand_over()
        self._close()

    def _patience(self) -> float | None:
        busy = any(room.assigned or not room.is_ready for room in self._rooms.values())
        return max(0.0, self._guard_at - time.monotonic()) if busy else None

    def _clear(self) -> None:
        try:
            self._wake.recv(4096)
        except BlockingIOError:
            pass

    def _take(self, helds: list[Held]) -> None:
        if self._is_draining:
            return self._return(helds, "the worker is shutting down")
        for held in helds:
            (self._inline if held.is_inline or self._lane is not None else self._backlog).append(held)
        return None

    def _dispatch(self) -> None:
        if self._inline:
            self._dispatch_inline()
        backlog, pace = self._backlog, self._pace
        while backlog:
            held = backlog[0]
            if held.is_lost:
                backlog.popleft()
                continue
            room = choose(self._isolates(), held, pace)
            if room is None or not self._assign(room, held):
                break
            backlog.popleft()
        self._listener.has_room()

    def _isolates(self) -> list[Room]:
        return [room for room in self._rooms.values() if not room.child.is_lane]

    def _dispatch_inline(self) -> None:
        room = next((room for room in self._rooms.values() if room.child.is_lane and not room.is_retired), None)
        if room is None:
            self._open_lane()
            return
        while self._inline and room.is_ready and len(room.assigned) < room.slots:
            held = self._inline.popleft()
            if not held.is_lost and not self._assign(room, held):
                self._inline.appendleft(held)
                break

    def _assign(self, room: Room, held: Held) -> bool:
        if not room.child.send(wire.run_of(held.number, held.delivery)):
            return False
        if not room.assigned:
            room.is_shared = held.is_async or room.child.is_lane
            if not self._guard_at:
                self._guard_at = time.monotonic() + GUARD_SECONDS
        room.assigned[held.number] = held
        return True

    def _read_line(self, room: Room) -> None:
        try:
            data = room.child.line.recv(READ_BYTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            # Its end of the line is closed; its death, or ours if it only closed the line, follows.
            self._selector.unregister(room.child.line)
            room.child.kill()
            return
        for word in room.child.frames.words(data):
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
        held = room.assigned.pop(word.number, None)
        if held is None or held.is_lost:
            return
        held.is_ended = True
        self._finished += 1
        if word.run_seconds is not None:
            self._pace.learn(held.delivery.name, word.run_seconds)
        self._endings.append((held, Ending(held.lease, wire.settlement_of(word), word.run_seconds)))

    def _end(self, held: Held, outcome: Outcome, run_seconds: float | None) -> None:
        """An ending that the isolate could not tell."""
        if held.is_lost:
            return
        held.is_ended = True
        self._finished += 1
        delivery = held.delivery
        decided = settle(
            outcome,
            _policy(held),
            attempt=delivery.attempt,
            deaths=delivery.deaths,
            roll=random.random(),  # noqa: S311
        )
        self._endings.append((held, Ending(held.lease, decided, run_seconds)))

    def _return(self, helds: list[Held], reason: str) -> None:
        for held in helds:
            self._end(held, Interrupted(reason), None)

    def _hand_over(self) -> None:
        if self._endings:
            endings, self._endings = self._endings, []
            self._listener.ended(endings)

    # Limits, marks, progress

    def _guard(self) -> None:
        now = time.monotonic()
        if not self._guard_at or now < self._guard_at:
            return
        marks: list[Held] = []
        reports: list[Report] = []
        for room in list(self._rooms.values()):
            if room.assigned:
                self._guard_room(room, now, marks, reports)
        busy = any(room.assigned or not room.is_ready for room in self._rooms.values())
        self._guard_at = now + GUARD_SECONDS if busy else 0.0
        if marks:
            self._listener.started(marks)
        if reports:
            self._listener.reported(reports)

    def _guard_room(self, room: Room, now: float, marks: list[Held], reports: list[Report]) -> None:
        cell = room.child.cell
        for slot in range(cell.slots if room.is_shared else 1):
            number = cell.running(slot)
            held = room.assigned.get(number)
            if held is None:
                continue
            started_at, soft_at, hard_at = cell.times(slot)
            if cell.running(slot) != number:
                continue  # it has moved on while we read
            if not hard_at and self._hard_limit is not None:
                hard_at = started_at + self._hard_limit
            if not soft_at and self._soft_limit is not None:
                soft_at = started_at + self._soft_limit
            if hard_at and now >= hard_at:
                self._terminate(room, slot, held, TimedOut(round(hard_at - started_at, 3)))
            elif soft_at and now >= soft_at and not held.is_soft:
                held.is_soft = True
                self._interrupt(room, slot, number, SOFT_LIMIT)
            if not held.is_marked and now - started_at > MARK_SECONDS:
                held.is_marked = True
                marks.append(held)
            if cell.beats(slot) != held.beats:
                self._collect(room, slot, held, reports)
            if not room.is_shared and len(room.assigned) > 1 and now - started_at > LONG_SECONDS:
                self._take_back(room)

    def _collect(self, room: Room, slot: int, held: Held, reports: list[Report]) -> None:
        found = room.child.cell.progress(slot)
        if found is None or room.child.cell.running(slot) != held.number:
            return
        held.beats, progress = found
        held.is_marked = True  # a report starts the attempt, too
        try:
            reports.append(Report(held.lease, msgspec.json.decode(progress, type=dict) if progress else None))
        except msgspec.DecodeError:
            log.warning("task.progress-unreadable id=%s", held.lease.id)

    def _take_back(self, room: Room) -> None:
        """The oldest first again, ahead of what was claimed later."""
        helds = [room.assigned.pop(number) for number in room.child.take_back() if number in room.assigned]
        (self._inline if room.child.is_lane else self._backlog).extendleft(reversed(helds))

    def _interrupt(self, room: Room, slot: int, number: int, why: int) -> None:
        room.child.cell.interrupt(slot, number, why)
        if room.child.pid:
            room.child.interrupt()
        elif self._interrupt_lane is not None:
            self._interrupt_lane()

    def _terminate(self, room: Room, slot: int, held: Held, outcome: Outcome) -> None:
        """Kill the isolate, if it is still at this run. With its inbox empty it cannot get to another one meanwhile."""
        self._take_back(room)
        if room.child.cell.running(slot) != held.number or held.verdict is not None:
            return
        held.verdict = outcome
        room.is_retired = True
        if room.child.pid:
            log.info("task.killed id=%s isolate=%d: %s", held.lease.id, room.child.pid, type(outcome).__name__)
            room.child.kill()
        else:
            self._abandon(room, slot, held, outcome)

    def _lose(self, helds: list[Held]) -> None:
        for held in helds:
            if held.is_lost or held.is_ended:
                continue
            held.is_lost = True
            self._finished += 1
            self.settled([held])
            for room in self._rooms.values():
                if held.number in room.assigned:
                    self._stop_lost(room, held)
        self._backlog = deque(held for held in self._backlog if not held.is_lost)
        self._inline = deque(held for held in self._inline if not held.is_lost)

    def _stop_lost(self, room: Room, held: Held) -> None:
        cell = room.child.cell
        slot = next((slot for slot in range(cell.slots) if cell.running(slot) == held.number), None)
        if slot is None:
            self._take_back(room)
            return
        self._interrupt(room, slot, held.number, REVOKED)
        if not room.is_shared:
            self._terminate(room, slot, held, Interrupted("the lease was lost"))

    # Births and deaths

    def _watch_nursery(self, nursery: Nursery) -> None:
        self._selector.register(nursery.control, selectors.EVENT_READ, self._hear_nursery)

    def _bear(self, *, is_lane: bool = False) -> None:
        if self._nursery is None:
            return
        slots = self._lane_concurrency if is_lane else self._async_concurrency
        self._add(self._nursery.start(slots, is_lane=is_lane), slots)

    def _open_lane(self) -> None:
        if self._lane is None:
            self._bear(is_lane=True)
            return
        child, descriptors = make_child(self._lane_concurrency, is_lane=True)
        self._add(child, self._lane_concurrency)
        self._interrupt_lane = self._lane(descriptors, self._lane_concurrency)

    def _add(self, child: Child, slots: int) -> None:
        room = self._rooms[child.token] = Room(child, slots)
        self._selector.register(child.line, selectors.EVENT_READ, partial(self._read_line, room))
        self._selector.register(child.output, selectors.EVENT_READ, partial(self._read_output, room, Lines()))
        self._guard_at = self._guard_at or time.monotonic() + GUARD_SECONDS

    def _hear_nursery(self) -> None:
        if self._nursery is None:
            return
        try:
            replies = self._nursery.replies()
        except (EOFError, OSError):
            return self._replace_nursery()
        for reply in replies:
            match reply:
                case Born(token, pid):
                    room = self._rooms[token]
                    room.child.pid = pid
                    self._by_pid[pid] = room
                case Exited(pid, exit_code):
                    self._exited(pid, exit_code)
                case Loaded() | Refused():
                    pass
        return None

    def _exited(self, pid: int, exit_code: int) -> None:
        room = self._by_pid.pop(pid, None)
        if room is None or self._nursery is None:
            return
        self._bury(room, exit_code)
        self._nursery.bury(pid)
        if not room.is_ready:
            self._stillbirths += 1
            if self._stillbirths >= STILLBIRTHS:
                self._listener.failed(
                    f"Isolates end (exit code {exit_code}) before they are ready; see what they wrote above."
                )
                return
        if not self._is_stopped and not room.child.is_lane:
            self._bear()

    def _bury(self, room: Room, exit_code: int) -> None:
        """What it said last still counts; then what it ran has died, and what it had not begun goes to others."""
        child, cell = room.child, room.child.cell
        while child.line in self._selector.get_map():
            before = len(room.assigned)
            self._drain_line(room)
            if len(room.assigned) == before:
                break
        self._read_output(room, None)
        running = {cell.running(slot): slot for slot in range(cell.slots)}
        is_ours = room.is_retired
        is_oom = exit_code == -9 and not is_ours and oom_kills() > self._oom_kills
        unstarted = []
        for number, held in list(room.assigned.items()):
            if number not in running:
                unstarted.append(held)
                continue
            ran = time.monotonic() - cell.times(running[number])[0]
            if held.verdict is not None:
                self._end(held, held.verdict, ran)
            elif is_ours:
                self._end(held, Interrupted("another task's end took the isolate with it"), ran)
            else:
                log.warning("isolate.died pid=%d code=%d task=%s oom=%s", child.pid, exit_code, held.lease.id, is_oom)
                self._end(held, Died(exit_code, is_oom), ran)
        (self._inline if child.is_lane else self._backlog).extendleft(reversed(unstarted))
        child.kill()  # what it may have left in its group
        self._forget(room)

    def _drain_line(self, room: Room) -> None:
        try:
            self._read_line(room)
        except (OSError, ValueError, msgspec.DecodeError):
            pass  # cut off in the middle of a word

    def _forget(self, room: Room) -> None:
        for end in (room.child.line, room.child.output):
            if end in self._selector.get_map():
                self._selector.unregister(end)
        room.child.close()
        self._rooms.pop(room.child.token, None)

    def _abandon(self, room: Room, slot: int, held: Held, outcome: Outcome) -> None:
        """A lane in this very process cannot be killed: its thread is left to itself, and what it brings is ignored."""
        room.assigned.pop(held.number, None)
        self._interrupt(room, slot, held.number, REVOKED)
        self._end(held, outcome, time.monotonic() - room.child.cell.times(slot)[0])
        room.is_retired = False

    def _replace_nursery(self) -> None:
        """The fork server is gone, and by the kernel's hand its isolates with it."""
        if self._nursery is None or self._is_stopped:
            return
        log.error("fork-server.died; starting another")
        self._selector.unregister(self._nursery.control)
        self._nursery.close()
        for room in list(self._rooms.values()):
            self._bury(room, -9)
        self._by_pid.clear()
        self._nursery = self._make_nursery()
        try:
            self._nursery.manifest()
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker cannot go on without
            self._listener.failed(str(error))
            return
        self._watch_nursery(self._nursery)
        for _ in range(self.concurrency):
            self._bear()

    def _drain(self, reason: str) -> None:
        self._is_draining = True
        for room in self._rooms.values():
            self._take_back(room)
        helds = [held for held in (*self._backlog, *self._inline) if not held.is_lost]
        self._backlog.clear()
        self._inline.clear()
        self._return(helds, reason)

    def _cut_off(self, reason: str) -> None:
        self._drain(reason)
        for room in list(self._rooms.values()):
            for slot in range(room.child.cell.slots):
                held = room.assigned.get(room.child.cell.running(slot))
                if held is not None:
                    self._terminate(room, slot, held, Interrupted(reason))
            for held in list(room.assigned.values()):
                held.verdict = held.verdict or Interrupted(reason)

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

    def _read_output(self, room: Room, lines: Lines | None) -> None:
        """`lines` None: the last of it, from the pipe of one that has died."""
        is_last = lines is None
        lines = lines or Lines()
        while True:
            try:
                data = os.read(room.child.output, READ_BYTES)
            except BlockingIOError:
                data = b""
            except OSError:
                return
            for task, line in lines.feed(data) if data else lines.end() if is_last else ():
                output_log.info("%s", line, extra={"task_id": task or self._only_task(room)})
            if not is_last or not data:
                return

    def _only_task(self, room: Room) -> str:
        running = [room.assigned.get(room.child.cell.running(slot)) for slot in range(room.child.cell.slots)]
        ids = [held.lease.id for held in running if held is not None]
        return ids[0] if len(ids) == 1 else ""


def _policy(held: Held) -> Policy:
    """A strategy that is a function stays with the code; for one that was killed the default's delays count."""
    retry = held.facts.retry if held.facts is not None else None
    try:
        return policy_for(held.delivery.envelope, retry or Exponential())
    except EnvelopeUnreadable:
        return Policy()
