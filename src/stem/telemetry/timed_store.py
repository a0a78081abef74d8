"""A store whose calls are timed and whose errors are counted."""

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any

from stem.contracts.store import Store
from stem.telemetry.instruments import CALL_DURATION, CALL_ERRORS
from stem.telemetry.metrics import Metrics

_TIMED = ("broker", "results", "revokes", "locks", "limiter", "heartbeats", "schedules", "steps")
# These wait for something to happen, or do not call the store.
_UNTIMED = frozenset({"wait", "wait_for_handoff", "stop_handoff", "release_wait"})


def timed_store(store: Store, metrics: Metrics) -> Store:
    parts: dict[str, Any] = {name: _TimedPart(getattr(store, name), name, metrics) for name in _TIMED}
    return replace(store, **parts)


class _TimedPart:
    """Stands for one contract of the store. A method is wrapped when it is first used."""

    def __init__(self, part: object, name: str, metrics: Metrics) -> None:
        self._part, self._name, self._metrics = part, name, metrics

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if callable(found) and name not in _UNTIMED and not name.startswith("_"):
            found = _timed(found, f"{self._name}.{name}", self._metrics)
            setattr(self, name, found)
        return found


def _timed(method: Callable[..., Any], call: str, metrics: Metrics) -> Callable[..., Any]:
    labels = (call,)

    def timed(*args: Any, **kwargs: Any) -> Any:
        began_at = perf_counter()
        try:
            return method(*args, **kwargs)
        except Exception as error:
            metrics.count(CALL_ERRORS, {(call, type(error).__name__): 1})
            raise
        finally:
            metrics.observe(CALL_DURATION, {labels: [perf_counter() - began_at]})

    return timed
