"""Numbers of tasks that were enqueued, ran and ended."""

from typing import TYPE_CHECKING, Any

from stem.pipeline.rollups.facts import Facts
from stem.pipeline.rollups.measure import Measure

if TYPE_CHECKING:
    import numpy as np

# By kind of event, as columns are named.
KINDS = (
    "enqueued", "started", "succeeded", "retried", "failed", "revoked", "expired", "requeued", "throttled",
    "dead_lettered", "replayed",
)  # fmt: skip
# Outcomes of attempts that did not end by themselves.
OUTCOMES = ("lost", "interrupted", "cancelled")


def _equal(words: "np.ndarray[Any, Any]", word: str) -> "np.ndarray[Any, Any]":
    import numpy as np

    return np.asarray(words == word)


def _of_kind(name: str) -> Measure:
    def is_it(facts: Facts) -> "np.ndarray[Any, Any]":
        return _equal(facts.kind, name.replace("_", "-"))

    return Measure(name, "count", is_it)


def _of_outcome(name: str) -> Measure:
    def is_it(facts: Facts) -> "np.ndarray[Any, Any]":
        return _equal(facts.outcome, name)

    return Measure(name, "count", is_it)


MEASURES = (*map(_of_kind, KINDS), *map(_of_outcome, OUTCOMES))
