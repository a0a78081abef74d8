"""Attempts are derived from events: which event ended one, and how."""

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from stem.pipeline import schemas
from stem.pipeline.attempts import attempts_of

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def outcome(kind: str, has_begun: bool, **data: Any) -> str | None:
    event = {"kind": kind, "at": NOON, "enqueued_at": NOON, "started_at": NOON if has_begun else None, "attempt": 0}
    events = pa.Table.from_pylist([event | {"data": json.dumps(data)}], schemas.arrow_schema(schemas.EVENTS))
    found = attempts_of(events).to_pylist()
    return found[0]["outcome"] if found else None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"reason": "whatever it says", "died": True}, "lost"),
        ({"reason": "lease-expired"}, "lost"),
        ({"reason": "The process that ran the task was ended by SIGKILL."}, "lost"),  # as older versions wrote it
        ({"reason": "the worker was shut down"}, "interrupted"),
        ({"reason": ["of", "a", "worker's", "own"], "died": "no"}, "interrupted"),
        ({}, "interrupted"),
    ],
)
def test_a_requeued_attempt_is_lost_if_its_process_died_or_its_lease_expired(
    data: dict[str, Any], expected: str
) -> None:
    assert outcome("requeued", True, **data) == expected
    assert outcome("requeued", False, **data) is None


@pytest.mark.parametrize(
    ("kind", "begun", "not_begun"),
    [
        ("succeeded", "succeeded", "succeeded"),
        ("retried", "retried", "retried"),
        ("failed", "failed", "failed"),
        ("revoked", "cancelled", None),
        ("enqueued", None, None),
        ("dead-lettered", None, None),
    ],
)
def test_an_event_ends_an_attempt_by_its_kind(kind: str, begun: str | None, not_begun: str | None) -> None:
    assert (outcome(kind, True), outcome(kind, False)) == (begun, not_begun)
