"""A fleet's past, written into a store by the verbs that workers use."""

from collections.abc import Sequence

import msgspec

from stem.contracts.store import Store
from stem.core.delivery import Ending
from stem.core.lifecycle import EventKind
from stem.core.outcome import Cancelled, Dead, Done, Requeue, Retry, Settlement
from stem.core.record import TaskError
from support.builders import a_push

_DONE = Done(msgspec.Raw(b"1"))


def live(
    store: Store,
    tasks: int,
    *,
    names: Sequence[str] = ("mail.send", "report.make"),
    worker: str = "w1",
    queue: str = "default",
) -> None:
    """So many tasks come, run and end, in each of the ways there are; some ways by turns, so that counts differ."""
    for start in range(0, tasks, 500):
        count = min(500, tasks - start)
        store.broker.push(
            [a_push(name=names[number % len(names)], queue=queue) for number in range(start, start + count)]
        )
        deliveries = store.broker.claim([queue], limit=count, lease_seconds=60)
        endings = [
            Ending(delivery.lease, _settlement(number), run_seconds=_run_seconds(number))
            for number, delivery in enumerate(deliveries, start)
        ]
        store.broker.settle(endings, worker=worker)
    store.events.note(EventKind.WORKER_SCALED, worker=worker, data={"from": 1, "to": 2, "reason": "depth"})


def _run_seconds(number: int) -> float | None:
    """None: it went back, or was given up, before it began."""
    if number % 50 in (7, 8):
        return None
    return 90.5 if number % 97 == 5 else 0.001 + (number * 37 % 1000) / 500


def _settlement(number: int) -> Settlement:
    match number % 50:
        case 1 | 2:
            return Retry(3600.0, TaskError("TimeoutError", f"no answer from host {number}", retryable=True))
        case 3:
            return Dead("retries-exhausted", TaskError("ValueError", f"no user {number} in '/data/{number}.csv'"))
        case 4:
            return Cancelled("not wanted")
        case 5:
            return Requeue(3600.0, "the worker was shut down")
        case 6:
            return Requeue(3600.0, "The process that ran the task was ended by SIGKILL.", died=True)
        case 7:
            return Requeue(3600.0, "mail:10/s", throttled=True)
        case 8:
            return Dead("unknown-task", TaskError("UnknownTask", "no task of that name"))
        case _:
            return _DONE
