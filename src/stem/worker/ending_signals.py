"""Send the signals of endings that the supervisor decides: a crash, a hard limit, a kill, a revoke before the start."""

from collections.abc import Iterable
from threading import Thread

from stem import signals
from stem.core.delivery import Ending
from stem.worker.pool.in_flight import InFlightTask


def announce(endings: Iterable[tuple[InFlightTask, Ending]], worker: str) -> None:
    """In a thread of its own, because handlers may take their time. Those that an isolate decided it has told itself."""
    if not any(signal.handlers for signal in signals.ENDINGS.values()):
        return
    told = [pair for pair in endings if pair[0].is_decided_here and type(pair[1].settlement) in signals.ENDINGS]
    if told:
        Thread(target=_send, args=(told, worker), name="ending-signals").start()


def _send(endings: list[tuple[InFlightTask, Ending]], worker: str) -> None:
    for task, ending in endings:
        signal = signals.ENDINGS[type(ending.settlement)]
        signal.send(signals.AttemptEnded(None, ending.settlement, ending.run_seconds or 0.0, task.delivery, worker))
