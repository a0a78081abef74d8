"""Canvases in a store without a worker: the test says what becomes of each task."""

from collections.abc import Collection
from typing import Any

import msgspec

from stem import Stem
from stem.client.canvas.handle import CanvasHandle
from stem.core.delivery import Ending
from stem.core.outcome import Dead, Done, Settlement
from stem.core.record import TaskError


def a_form(*steps: Any, name: str | None = None) -> dict[str, Any]:
    """The form of a chain: names of tasks, and lists of names for groups."""
    made = [
        {"kind": "group", "members": [_task(each) for each in step]} if isinstance(step, list) else _task(step)
        for step in steps
    ]
    return {"kind": "chain", "steps": made, **({} if name is None else {"name": name})}


def submitted(app: Stem, *steps: Any, name: str | None = None) -> CanvasHandle[Any]:
    return app.submit(app.canvas_of(a_form(*steps, name=name), check=False))


def settle_all(app: Stem, *, failing: Collection[str] = (), message: str = "boom") -> list[str]:
    """Run whatever can be claimed until nothing can; tasks of these names fail. Returns the names, in order."""
    ran: list[str] = []
    while found := app.store.broker.claim(["default"], limit=1, lease_seconds=60):
        (delivery,) = found
        name = delivery.envelope.name
        app.store.broker.start([delivery.lease], worker="w1")
        error = TaskError("ValueError", message, "Traceback")
        end: Settlement = Dead("retries-exhausted", error) if name in failing else Done(msgspec.Raw(b"1"))
        app.store.broker.settle([Ending(delivery.lease, end, 0.5)], worker="w1")
        ran.append(name)
    return ran


def _task(name: str) -> dict[str, Any]:
    return {"kind": "task", "task": name, "immutable": True}
