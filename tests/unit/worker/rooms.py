"""Rooms as the pool sees them: with the memory and sockets of a real isolate, and nobody in them."""

import os
import socket
from itertools import count
from typing import Protocol

from stem.core.delivery import Delivery, Lease
from stem.worker import wire
from stem.worker.cell import Cell
from stem.worker.held import Held
from stem.worker.manifest import TaskFacts
from stem.worker.nursery import make_child
from stem.worker.room import Room

_ids = count(1)


class Isolate:
    """The other ends: what a process in the room would hold."""

    def __init__(self, descriptors: list[int], slots: int) -> None:
        inbox, line, self.output, cell = descriptors
        self.inbox, self.line = socket.socket(fileno=inbox), socket.socket(fileno=line)
        self.cell = Cell(cell, slots)
        os.close(cell)

    def receive(self) -> int:
        """Take a run from the inbox; its number."""
        return wire.read_run(self.inbox.recv(wire.PACKET_BYTES)).number

    def close(self) -> None:
        self.inbox.close()
        self.line.close()
        os.close(self.output)
        self.cell.close()


class MakeRoom(Protocol):
    def __call__(self, slots: int = 1, *, is_lane: bool = False, most: int | None = None) -> tuple[Room, Isolate]: ...


def a_room(slots: int, is_lane: bool, most: int | None) -> tuple[Room, Isolate]:
    child, descriptors = make_child(slots, is_lane=is_lane)
    room = Room(child, slots, most)
    room.is_ready = True
    return room, Isolate(descriptors, slots)


def a_held(*, name: str = "it", is_async: bool = False, deaths: int = 0, isolate: bool = True) -> Held:
    facts = TaskFacts(
        name=name, queue="default", is_async=is_async, isolate=isolate, retry=None, rate=None, places=None
    )
    delivery = Delivery(Lease(f"task-{next(_ids)}", 1), name, "default", 0, deaths, b"{}")
    return Held(delivery, facts)


def assign(room: Room, *helds: Held) -> None:
    """As the pool does it."""
    for held in helds:
        assert room.child.send(wire.run_of(held.number, held.delivery))
        if not room.assigned:
            room.is_shared = held.is_async or room.child.is_lane
            room.holds_suspect = held.delivery.deaths > 0
        room.assigned[held.number] = held
