"""Work beside the test: in a thread, or in an operating-system process of its own."""

import multiprocessing
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from stem.backends import connect
from stem.core.settings.app import Settings

T = TypeVar("T")
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["stem.backends.sqlite", "stem.backends.redis", "stem.backends.postgres.store"])


def in_thread(work: Callable[[], T]) -> "Future[T]":
    """Starts at once; a thread that hangs does not keep the test run alive."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the result
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def together(works: list[Callable[[], T]], *, seconds: float = 60.0) -> list[T]:
    """Run all in threads that start at the same moment."""
    gate = threading.Barrier(len(works))

    def behind_the_gate(work: Callable[[], T]) -> Callable[[], T]:
        def run() -> T:
            gate.wait(seconds)
            return work()

        return run

    return [future.result(seconds) for future in [in_thread(behind_the_gate(work)) for work in works]]


def is_waiting(future: "Future[Any]", *, seconds: float = 0.15) -> bool:
    """True if it has still not come back after this long."""
    return not wait_for([future], timeout=seconds).done


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The answer, and the monotonic moment at which it came."""
    return work(), time.monotonic()


def takes_less_than(seconds: float, trial: Callable[[], float], *, tries: int = 5) -> None:
    """One of a few tries takes less time: a busy machine may halt any of them, a promise that is not kept delays them all."""
    taken: list[float] = []
    while not taken or taken[-1] >= seconds:
        assert len(taken) < tries, f"{tries} tries took no less than {seconds} s: {taken}"
        taken.append(trial())


class Errand(Generic[T]):
    """Calls a function of `support.stores.process_targets` in another process, with a store of that process's own."""

    def __init__(self, work: Callable[..., T], url: str, namespace: str, *args: Any) -> None:
        self._inbox, outbox = _processes.Pipe(duplex=False)
        self.process = _processes.Process(target=_run, args=(outbox, work, url, namespace, args), daemon=True)
        self.process.start()
        outbox.close()

    def result(self, *, seconds: float = 60.0) -> T:
        assert self._inbox.poll(seconds), f"the process said nothing within {seconds} s"
        is_good, value = self._inbox.recv()
        self.process.join(10)
        self._inbox.close()
        assert is_good, value
        answer: T = value
        return answer

    def kill(self) -> None:
        """SIGKILL, at whatever it is doing."""
        self.process.kill()
        self.process.join(10)
        self._inbox.close()


def barrier(parties: int) -> Any:
    """A gate that errands can share."""
    return _processes.Barrier(parties)


def _run(outbox: Connection, work: Callable[..., Any], url: str, namespace: str, args: tuple[Any, ...]) -> None:
    try:
        outbox.send((True, work(lambda: connect(url, Settings(namespace=namespace, timeout_seconds=30.0)), *args)))
    except BaseException:  # noqa: BLE001 - told to the parent, which fails the test with it
        outbox.send((False, traceback.format_exc()))
