"""Serves many asynchronous waits from one thread."""

import time
from collections.abc import Mapping
from contextlib import suppress
from threading import Condition, Thread
from typing import TYPE_CHECKING

from stem.contracts.results import Results
from stem.core.errors import StoreUnavailable, TaskNotFound
from stem.core.record import TaskRecord

if TYPE_CHECKING:
    import asyncio

SHORTEST_SECONDS, LONGEST_SECONDS = 0.03, 0.5  # of one wait; a task newly waited for joins the next one
RECHECK_SECONDS = 60.0
IDLE_SECONDS = 10.0


class Watcher:
    """Waits for all awaited tasks with one thread.

    The thread starts with the first wait and ends after a while without any.
    """

    def __init__(self, results: Results) -> None:
        self._results = results
        self._changed = Condition()
        self._waits: dict[str, list[_Wait]] = {}
        self._thread: Thread | None = None
        self._is_fresh = False  # a wait has joined since the last look
        self._is_closed = False

    async def ended(self, task_id: str) -> TaskRecord:
        """Wait for the task to end and return its record. Wrap it in a timeout; cancelling it stops the wait."""
        import asyncio

        loop = asyncio.get_running_loop()
        wait = _Wait(loop, loop.create_future())
        with self._changed:
            if self._is_closed:
                raise StoreUnavailable("The app was closed while a task was awaited.")
            self._waits.setdefault(task_id, []).append(wait)
            self._is_fresh = True
            if self._thread is None:
                self._thread = Thread(target=self._run, name="stem-watcher", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            return await wait.future
        finally:
            self._leave(task_id, wait)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            waits = list(self._waits)
            self._changed.notify()
        self._answer(dict.fromkeys(waits, StoreUnavailable("The app was closed while a task was awaited.")))

    def _run(self) -> None:
        pause = SHORTEST_SECONDS
        recheck_at = time.monotonic() + RECHECK_SECONDS
        while (task_ids := self._awaited()) is not None:
            pause = SHORTEST_SECONDS if self._is_fresh else min(pause * 1.3, LONGEST_SECONDS)
            self._is_fresh = False
            try:
                if time.monotonic() > recheck_at:
                    recheck_at = time.monotonic() + RECHECK_SECONDS
                    self._refuse_unknown(task_ids)
                self._answer(self._results.wait(task_ids, timeout_seconds=pause))
            except Exception as error:  # noqa: BLE001 - the waiting coroutines get it; nothing else would report it
                self._answer(dict.fromkeys(task_ids, error))

    def _awaited(self) -> list[str] | None:
        """Block until there are tasks to wait for; None: the thread should end."""
        with self._changed:
            if not self._waits and not self._is_closed:
                self._changed.wait(IDLE_SECONDS)
            if self._waits and not self._is_closed:
                return list(self._waits)
            self._thread = None
            return None

    def _refuse_unknown(self, task_ids: list[str]) -> None:
        known = self._results.get(task_ids)
        gone = [task_id for task_id in task_ids if task_id not in known]
        self._answer(
            {task_id: TaskNotFound(f"Task {task_id} is no longer known; its result expired.") for task_id in gone}
        )

    def _answer(self, answers: Mapping[str, TaskRecord | Exception]) -> None:
        with self._changed:
            answered = [(wait, answers[task_id]) for task_id in answers for wait in self._waits.pop(task_id, ())]
        for wait, answer in answered:
            wait.answer(answer)

    def _leave(self, task_id: str, wait: "_Wait") -> None:
        with self._changed:
            others = [other for other in self._waits.get(task_id, ()) if other is not wait]
            if others:
                self._waits[task_id] = others
            else:
                self._waits.pop(task_id, None)


class _Wait:
    def __init__(self, loop: "asyncio.AbstractEventLoop", future: "asyncio.Future[TaskRecord]") -> None:
        self.loop = loop
        self.future = future

    def answer(self, answer: TaskRecord | Exception) -> None:
        with suppress(RuntimeError):  # the loop is closed, so nothing waits there
            self.loop.call_soon_threadsafe(self._set, answer)

    def _set(self, answer: TaskRecord | Exception) -> None:
        if self.future.done():
            return
        if isinstance(answer, Exception):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)
