"""The isolates and what they hold: hands out runs, hears of endings, acts on limits, replaces the fallen. Asks no store.

All of it happens in one thread; others post to it. So nothing here is half done when looked at from here.
"""

import logging
import selectors
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from functools import partial
from threading import Condition, Lock, Thread
from typing import Any, Protocol

from stem.core.delivery import Ending, Report
from stem.core.envelope import call_facts
from stem.core.outcome import Done, Interrupted, Outcome
from stem.core.routing import is_of
from stem.runtime.process import oom_kills
from stem.worker import wire
from stem.worker.backlog import Backlog
from stem.worker.brood import Brood, Parent
from stem.worker.deaths import decided, estate, is_out_of_memory
from stem.worker.garbage import sought_seldom
from stem.worker.guard import ENGINE_SECONDS, LOOK_SECONDS, Begun, InTheWay, Limits, Spoilt, Told, look
from stem.worker.held import Held
from stem.worker.inbox import Inbox
from stem.worker.nursery import Child, Nursery
from stem.worker.room import Pace, Room
from stem.worker.stops import Stops

log = logging.getLogger("stem.worker")

_NO_META: dict[str, Any] = {}
HOARD_SECONDS = 1.0  # how long a task may wait here for isolates that end nothing


class Listener(Protocol):
    """Whoever tells the store what the pool finds out. Called from the pool's thread; must not block."""

    def ended(self, endings: list[tuple[Held, Ending]]) -> None: ...

    def begun(self, helds: list[Held]) -> None: ...

    def reported(self, reports: list[tuple[Held, Report]]) -> None: ...

    def asked(self, child: Child, word: wire.AskBody | wire.AskPush, body: bytes) -> None: ...

    def extended(self, held: Held, seconds: float) -> None: ...

    def has_room(self) -> None: ...

    def is_stuck(self) -> None: ...

    def recycled(self, pid: int, reason: str) -> None: ...

    def failed(self, sentence: str) -> None: ...


class Pool:
    def __init__(
        self,
        make_brood: Callable[[Parent, selectors.BaseSelector], Brood],
        listener: Listener,
        limits: Limits,
    ) -> None:
        self._listener = listener
        self._limits = limits
        self._selector = selectors.DefaultSelector()
        self.brood = make_brood(self, self._selector)
        self._nursery: Nursery | None = None
        self.held: dict[int, Held] = {}  # all, from the offer until they are settled
        self._offered = 0  # counted by whoever offers
        self._offering = Lock()
        self._finished = 0  # counted by the pool's thread
        self._finished_at = 0.0
        self._pace = Pace()
        self._backlog = Backlog(self.brood, self._pace)
        self._stops = Stops(self.brood, self._backlog, self._end)
        self._paused: set[str] = set()
        self._endings: list[tuple[Held, Ending]] = []
        self._inbox = Inbox(self._selector)
        self.post = self._inbox.post
        self._look_at = 0.0
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
        with self._offering:
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

    def stop_running(self, reason: str) -> None:
        """Tell what runs to stop; it goes back. What does not stop is killed when its grace is over."""
        self.post(partial(self._stops.tell_all, reason))

    def revoke(self, reasons: Mapping[str, str], *, terminate: bool, signal_number: int) -> "Future[dict[str, str]]":
        """By task id: why. What has not begun is cancelled; what runs is told to stop if `terminate`. Says what happened
        to each that is here."""
        told: Future[dict[str, str]] = Future()
        self.post(lambda: told.set_result(self._revoke(reasons, terminate, signal_number)))
        return told

    def pause(self, queues: Iterable[str]) -> None:
        """Begin nothing of these; what is here of them and has not begun goes back."""
        self.post(partial(self._pause, set(queues)))

    def resume(self, queues: Iterable[str]) -> None:
        self.post(partial(self._paused.difference_update, set(queues)))

    def resize(self, concurrency: int) -> None:
        self.post(partial(self.brood.resize, concurrency))

    def recycle(self, pids: Iterable[int] | None, reason: str) -> None:
        """These isolates, or all, when they are done with what they run."""
        self.post(partial(self._recycle, None if pids is None else set(pids), reason))

    def wait_until_quiet(self, timeout_seconds: float | None) -> bool:
        """True: nothing is held any more."""
        with self._quiet:
            return self._quiet.wait_for(lambda: not self.held, timeout_seconds)

    def stop(self) -> None:
        self.post(self._stop)
        self._thread.join(timeout=10)

    @property
    def concurrency(self) -> int:
        return self.brood.concurrency

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
    def taken(self) -> int:
        """How many isolates that is: coroutines fill one together, and the lane is none of them."""
        if self.brood.has_own_lane:
            return self.load
        return self.load - sum(room.beside for room in list(self.brood.rooms.values()))

    @property
    def waiting(self) -> int:
        """How many of them have not begun."""
        return max(0, self.load - len(self.running))

    @property
    def running(self) -> list[tuple[Held, float]]:
        """What runs at this moment, and for how long."""
        now, found = time.monotonic(), list[tuple[Held, float]]()
        for room in list(self.brood.rooms.values()):
            # Others ask this, too; meanwhile the pool may bury the isolate, and its cell is closed then.
            with suppress(ValueError):
                found += [(held, now - room.child.cell.times(slot)[0]) for slot, held in list(room.running())]
        return found

    @property
    def grace_seconds(self) -> float:
        """How long what is here may take once it is told to stop."""
        has_engine = any(held.has_engine for held in list(self.held.values()))
        return self._limits.grace + (ENGINE_SECONDS if has_engine else 0.0)

    @property
    def pids(self) -> list[int]:
        return list(self.brood.by_pid)

    # The thread

    def _run(self) -> None:
        self._inbox.open()
        try:
            # Where tasks run in this very process, their garbage is none of our business.
            with nullcontext() if self.brood.has_own_lane else sought_seldom():
                self.brood.open(self._nursery)
                while not self._is_stopped:
                    self._go_round()
        finally:
            self._close()

    def _go_round(self) -> None:
        for key, _ in self._selector.select(self._patience()):
            key.data()
        self._inbox.do_all()
        self._look()
        self._dispatch()
        self._hand_over()

    def _patience(self) -> float | None:
        return max(0.0, self._look_at - time.monotonic()) if self._look_at else None

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
        self._backlog.put(helds)
        if self._paused:
            self._pause(set())

    def _dispatch(self) -> None:
        if self._backlog.hand_out():
            self._look_soon()

    # Hearing

    def heed(self, room: Room, word: wire.Word) -> None:
        match word:
            case wire.Ended():
                self._ended(room, word)
            case wire.Ready():
                self.brood.born(room)
            case wire.Extend(number, seconds):
                if number in room.assigned:
                    self._listener.extended(room.assigned[number], wire.checked_seconds(seconds))
            case wire.AskBody(number):
                body = room.assigned[number].delivery.body if number in room.assigned else b""
                self._listener.asked(room.child, word, body)
            case wire.AskPush():
                self._listener.asked(room.child, word, b"")

    def _ended(self, room: Room, word: wire.Ended) -> None:
        settlement = wire.settlement_of(word)
        meta = word.meta if word.progress else _NO_META
        held = room.assigned.pop(word.number, None)
        self.brood.count_task(room)
        if held is None or held.is_lost:
            return
        if held.fate is not None:
            self._end(held, held.fate, held.ran_seconds)
            return
        if held.verdict is not None and not isinstance(settlement, Done):
            settlement = decided(held, held.verdict, self._limits.max_deaths)  # it ended because it was told to
        elif word.run_seconds is not None:
            self._pace.learn(held.delivery.name, word.run_seconds)
        self._finish(held, Ending(held.lease, settlement, word.run_seconds, meta, (), call_facts(held.delivery.body)))

    def _end(self, held: Held, outcome: Outcome, run_seconds: float | None) -> None:
        """An ending that the isolate could not tell."""
        if not held.is_lost:
            facts = call_facts(held.delivery.body)
            settlement = decided(held, held.fate or outcome, self._limits.max_deaths)
            self._finish(held, Ending(held.lease, settlement, run_seconds, facts=facts))

    def _finish(self, held: Held, ending: Ending) -> None:
        held.is_ended = True
        self._finished += 1
        self._finished_at = time.monotonic()
        self._endings.append((held, ending))

    def _return(self, helds: list[Held], reason: str) -> None:
        for held in helds:
            self._end(held, Interrupted(reason), None)

    # Limits

    def _look_soon(self) -> None:
        self._look_at = self._look_at or time.monotonic() + LOOK_SECONDS

    def _look(self) -> None:
        now = time.monotonic()
        if not self._look_at or now < self._look_at:
            return
        begun: list[Held] = []
        reports: list[tuple[Held, Report]] = []
        for room in list(self.brood.rooms.values()):
            for finding in look(room, now, self._limits) if room.assigned else ():
                match finding:
                    case Begun(held):
                        begun.append(held)
                    case Told(held, report):
                        reports.append((held, report))
                    case InTheWay():
                        self._backlog.put_back(room.take_back())
                    case Spoilt():
                        self._backlog.put_back(room.take_back())
                        if room.assigned:
                            room.is_spoilt = True
                            log.warning(
                                "isolate.spoilt pid=%d: a task has written where only the worker writes", room.child.pid
                            )
                            room.child.kill()
                    case _:
                        self._stops.act_on(room, finding)
        if begun:
            self._listener.begun(begun)
        if reports:
            self._listener.reported(reports)
        first = self._backlog.first
        if first is not None and now - max(self._finished_at, first.claimed_at) > HOARD_SECONDS:
            self._unhoard()
        self.brood.weigh()
        is_busy = any(room.assigned for room in self.brood.rooms.values())
        self._look_at = now + LOOK_SECONDS if is_busy else 0.0

    def _unhoard(self) -> None:
        """Everybody here is busy for long; somebody else may not be."""
        helds = self._backlog.take_isolated()
        self._backlog.put_back([held for held in helds if held.fate is not None])  # these have run
        self._listener.is_stuck()
        self._return([held for held in helds if held.fate is None], "claimed too early")

    # Revokes, pauses, stops

    def _revoke(self, reasons: Mapping[str, str], terminate: bool, signal_number: int) -> dict[str, str]:
        told = {}
        for held in [held for held in self.held.values() if held.lease.id in reasons]:
            if not held.is_ended and not held.is_lost:
                told[held.lease.id] = self._stops.revoke(
                    held, reasons[held.lease.id], terminate=terminate, signal_number=signal_number
                )
        return told

    def _pause(self, queues: set[str]) -> None:
        self._paused |= queues
        for room in self.brood.rooms.values():
            if any(self._is_paused(held) for held in room.assigned.values()):
                self._backlog.put_back(room.take_back())
        self._return(self._backlog.take_out(self._is_paused), "the queue is paused")

    def _is_paused(self, held: Held) -> bool:
        return held.fate is None and any(is_of(queue, held.delivery.queue) for queue in self._paused)

    def _recycle(self, pids: set[int] | None, reason: str) -> None:
        for room in self.brood.isolates():
            if pids is None or room.child.pid in pids:
                self.brood.recycle(room, reason)

    def _lose(self, helds: list[Held]) -> None:
        for held in helds:
            if held.is_lost or held.is_ended:
                continue
            held.is_lost = True
            self._finished += 1
            self.settled([held])
            self._stops.drop(held)
        self._backlog.take_out(lambda held: held.is_lost)

    def died(self, room: Room, exit_code: int) -> None:
        """What it said last has counted; now it is asked what it leaves behind."""
        killed = oom_kills()
        is_oom = is_out_of_memory(exit_code, by_us=room.is_doomed, kills_before=self._oom_kills, kills_now=killed)
        self._oom_kills = killed
        left = estate(room, exit_code, out_of_memory=is_oom)
        for held, outcome, ran in left.ended:
            if held.verdict is None and not room.is_doomed:
                pid = room.child.pid
                log.warning("isolate.died pid=%d code=%d oom=%s task=%s", pid, exit_code, is_oom, held.lease.id)
            if held.has_engine and held.fate is None:
                held.meet(outcome, ran)  # also in a shutdown: nobody else may come to end it
                left.unstarted.append(held)
            else:
                self._end(held, outcome, ran)
        self._backlog.put_back([held for held in left.unstarted if not held.is_lost])
        if self._is_draining:
            self._drain("the worker is shutting down")

    def recycled(self, room: Room, reason: str) -> None:
        self._backlog.put_back(room.take_back())
        self._listener.recycled(room.child.pid, reason)

    def failed(self, sentence: str) -> None:
        self._listener.failed(sentence)

    def _drain(self, reason: str) -> None:
        self._is_draining = True
        for room in self.brood.rooms.values():
            self._backlog.put_back(room.take_back())
        self._return(self._backlog.take_out(lambda held: held.fate is None), reason)

    def _cut_off(self, reason: str) -> None:
        self._drain(reason)
        self._stops.kill_all(reason)

    def _stop(self) -> None:
        self._is_stopped = True

    def _close(self) -> None:
        self.brood.close()
        self._selector.close()
        self._inbox.close()
