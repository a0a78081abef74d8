"""The isolates as processes: born, heard, retired, buried and replaced, so that there are always as many as there should be.

Part of the pool, and like it the business of one thread.
"""

import logging
import os
import selectors
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

import msgspec

from stem.core.errors import StemError
from stem.runtime.process import resident_bytes
from stem.worker import wire
from stem.worker.nursery import Nursery, make_child
from stem.worker.output import leveled
from stem.worker.requests import Born, Exited, Loaded, Refused
from stem.worker.room import Room
from stem.worker.task_log import extra_of

log = logging.getLogger("stem.worker")
output_log = logging.getLogger("stem.task")

STILLBIRTHS = 5  # in a row, before the worker gives up
READ_BYTES = 1 << 18
WEIGH_SECONDS = 0.25

# Opens a lane in this process, of the given descriptors and slots; returns how to interrupt what runs there.
OpenLane = Callable[[list[int], int], Callable[[], None]]


class Parent(Protocol):
    def heed(self, room: Room, word: wire.Word) -> None: ...

    def died(self, room: Room, exit_code: int) -> None:
        """All that it said has been heard; it is forgotten after this."""

    def recycled(self, room: Room, reason: str) -> None: ...

    def failed(self, sentence: str) -> None: ...


class Brood:
    def __init__(
        self,
        parent: Parent,
        selector: selectors.BaseSelector,
        make_nursery: Callable[[], Nursery],
        *,
        concurrency: int,
        async_concurrency: int,
        lane_concurrency: int,
        max_tasks: int | None = None,
        max_memory_bytes: int | None = None,
        open_lane: OpenLane | None = None,
    ) -> None:
        self._parent = parent
        self._selector = selector
        self._make_nursery = make_nursery
        self.concurrency = concurrency  # how many isolates there should be
        self._async_concurrency = async_concurrency
        self._lane_concurrency = lane_concurrency
        self._max_tasks = max_tasks
        self._max_memory_bytes = max_memory_bytes
        self._open_own_lane = open_lane
        self._interrupt_own_lane: Callable[[], None] | None = None
        self._nursery: Nursery | None = None
        self.rooms: dict[int, Room] = {}  # by token
        self.by_pid: dict[int, Room] = {}
        self._buffer = memoryview(bytearray(READ_BYTES))
        self._stillbirths = 0
        self._weigh_at = 0.0
        self._is_closed = False

    @property
    def has_own_lane(self) -> bool:
        return self._open_own_lane is not None

    @property
    def server_pid(self) -> int | None:
        return None if self._nursery is None else self._nursery.pid

    def open(self, nursery: Nursery | None) -> None:
        if self.has_own_lane:
            self.bear(is_lane=True)
            return
        self._nursery = nursery
        if nursery is not None:
            self._selector.register(nursery.control, selectors.EVENT_READ, self._hear_nursery)
        self._fill()

    def close(self) -> None:
        self._is_closed = True
        for room in list(self.rooms.values()):
            self._forget(room)
        if self._nursery is not None:
            self._nursery.close()

    def isolates(self) -> list[Room]:
        """Those that get work."""
        return [room for room in self.rooms.values() if not room.child.is_lane and room.stays]

    def lane(self) -> Room:
        """Where tasks run that are not isolated; opened for the first of them."""
        found = (room for room in self.rooms.values() if room.child.is_lane and room.stays)
        return next(found, None) or self.bear(is_lane=True)

    def interrupt(self, room: Room) -> None:
        """Have it look into its cell."""
        if room.child.is_lane and self._interrupt_own_lane is not None:
            self._interrupt_own_lane()
        else:
            room.child.interrupt()

    def kill(self, room: Room) -> None:
        room.is_doomed = True
        room.child.kill()

    # How many there are

    def resize(self, concurrency: int) -> None:
        """New ones get work once they are ready; the ones too many finish what they hold, the idle first."""
        self.concurrency = concurrency
        present = sorted(self.isolates(), key=lambda room: len(room.assigned))
        for room in present[: max(0, len(present) - concurrency)]:
            self.retire(room)
        self._fill()

    def recycle(self, room: Room, reason: str) -> None:
        """A fresh one takes its place, while it finishes what it runs."""
        if room.stays:
            log.info("isolate.recycled pid=%d reason=%s", room.child.pid, reason)
            self.retire(room)
            self._parent.recycled(room, reason)
            self._fill()

    def retire(self, room: Room) -> None:
        room.is_leaving = True
        self.dismiss_idle(room)

    def dismiss_idle(self, room: Room) -> None:
        if room.is_leaving and not room.assigned:
            room.child.dismiss()

    def count_task(self, room: Room) -> None:
        """After each that a room has finished."""
        room.finished += 1
        if not room.child.is_lane:
            if room.finished == room.most:
                self.recycle(room, "max-tasks")
            if self._max_memory_bytes is not None:
                # Else one that grows in no time would not be weighed before its next task.
                self._weigh(room, is_alone=True)
        if room.is_leaving:
            self.dismiss_idle(room)

    def weigh(self) -> None:
        """Memory of each, with that of its children."""
        if self._max_memory_bytes is None or time.monotonic() < self._weigh_at:
            return
        self._weigh_at = time.monotonic() + WEIGH_SECONDS
        for room in self.isolates():
            self._weigh(room)

    def _weigh(self, room: Room, *, is_alone: bool = False) -> None:
        if self._max_memory_bytes is None or not room.stays or not room.child.pid:
            return
        weight = resident_bytes(room.child.pid, is_alone=is_alone)
        if weight > self._max_memory_bytes:
            self.recycle(room, f"max-memory ({weight // 1024**2} MB)")

    def _fill(self) -> None:
        for _ in range(self.concurrency - len(self.isolates())):
            self.bear()

    # Births

    def bear(self, *, is_lane: bool = False) -> Room:
        slots = self._lane_concurrency if is_lane else self._async_concurrency
        if self._open_own_lane is not None:
            child, descriptors = make_child(slots, is_lane=True)
            self._interrupt_own_lane = self._open_own_lane(descriptors, slots)
        elif self._nursery is not None:
            child = self._nursery.start(slots, is_lane=is_lane)
        room = self.rooms[child.token] = Room(child, slots, self._max_tasks)
        self._selector.register(child.line, selectors.EVENT_READ, partial(self._hear, room))
        self._selector.register(child.output, selectors.EVENT_READ, partial(self._hear_output, room))
        return room

    def born(self, room: Room) -> None:
        room.is_ready = True
        self._stillbirths = 0

    # Hearing

    def _hear(self, room: Room) -> None:
        if room.child.token not in self.rooms:
            return  # buried earlier in this round
        try:
            # Into one buffer for all: a new one each time costs more than the words.
            count = room.child.line.recv_into(self._buffer)
        except BlockingIOError:
            return
        except ConnectionError:
            count = 0
        try:
            for word in room.child.frames.words(bytes(self._buffer[:count])):
                self._parent.heed(room, word)
        except (ValueError, RecursionError, msgspec.MsgspecError):
            count = 0  # a task has written into its line
        if not count:
            # It cannot tell us anything any more, whether it has died or a task has spoilt its line.
            self._selector.unregister(room.child.line)
            room.child.kill()

    def _hear_output(self, room: Room) -> None:
        if room.child.token not in self.rooms:
            return
        alone = _alone(room)  # asked before: by now it may have ended, and another have begun
        try:
            data = os.read(room.child.output, READ_BYTES)
        except BlockingIOError:
            return
        _tell_output(room, room.child.lines.feed(data, alone or _alone(room)) if data else room.child.lines.end())
        if not data:
            self._selector.unregister(room.child.output)

    def _hear_the_last(self, room: Room) -> None:
        # A line that was spoilt is not listened to again: what follows the garbage may be garbage that looks like words.
        is_heard = room.child.line in self._selector.get_map()
        with suppress(OSError, ValueError, RecursionError, msgspec.DecodeError):  # cut off in the middle of a word
            while is_heard and (data := room.child.line.recv(READ_BYTES)):
                for word in room.child.frames.words(data):
                    self._parent.heed(room, word)
        with suppress(OSError):
            # Once: that is more than a pipe holds, and a child that got away may go on writing for ever.
            _tell_output(room, room.child.lines.feed(os.read(room.child.output, READ_BYTES), _alone(room)))
        _tell_output(room, room.child.lines.end())

    # Deaths

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
                    self.rooms[token].child.pid = pid
                    self.by_pid[pid] = self.rooms[token]
                case Exited(pid, exit_code):
                    room = self.by_pid.pop(pid)
                    self._bury(room, exit_code)
                    self._nursery.bury(pid)
                    self._replace(room, exit_code)
                case Loaded() | Refused():
                    pass

    def _replace(self, room: Room, exit_code: int) -> None:
        if not room.is_ready:
            self._stillbirths += 1
        if self._stillbirths >= STILLBIRTHS:
            self._parent.failed(f"Isolates end (exit code {exit_code}) before they are ready; see what they wrote.")
        elif not self._is_closed:
            self._fill()

    def _bury(self, room: Room, exit_code: int) -> None:
        room.child.kill()  # whatever it has left in its group
        self._hear_the_last(room)
        self._parent.died(room, exit_code)
        self._forget(room)

    def _forget(self, room: Room) -> None:
        for end in (room.child.line, room.child.output):
            with suppress(KeyError):
                self._selector.unregister(end)
        room.child.close()
        del self.rooms[room.child.token]

    def _replace_nursery(self) -> None:
        """The fork server is gone, and by the kernel's hand its isolates with it."""
        if self._nursery is None or self._is_closed:
            return
        log.error("fork-server.died; starting another")
        self._selector.unregister(self._nursery.control)
        self._nursery.close()
        self.by_pid.clear()
        for room in list(self.rooms.values()):
            # The kernel may not have come round to it yet, and what it runs is about to run again.
            self._bury(room, -9)
        try:
            nursery = self._make_nursery()
            nursery.manifest()
        except StemError as error:
            self._parent.failed(str(error))
            return
        self.open(nursery)


def _alone(room: Room) -> str:
    """The id of the task that runs there, if it is one alone."""
    running = [held.lease.id for _, held in room.running()]
    return running[0] if len(running) == 1 else ""


def _tell_output(room: Room, lines: list[tuple[str, str]]) -> None:
    if not lines:
        return
    deliveries = {held.lease.id: held.delivery for held in list(room.assigned.values())}
    for task_id, line in lines:
        level, text = leveled(line)
        first, _, more = text.partition("\n")
        output_log.log(level, "%s", first, extra=extra_of(deliveries.get(task_id), task_id, more=more))
