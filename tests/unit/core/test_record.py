"""The status record: what anyone may know of a task, in any language."""

import json
from datetime import UTC, datetime

import msgspec
import pytest

from stem.core.lifecycle import State
from stem.core.record import TaskError, TaskRecord, moment, moment_or_none

AT = datetime(2025, 1, 1, tzinfo=UTC)


def a_record(state: State = State.QUEUED, **more: object) -> TaskRecord:
    fields = {
        "id": "a", "name": "n", "queue": "q", "state": state, "attempt": 0, "fence": 1, "priority": 5,
        "enqueued_at": AT, "updated_at": AT, **more,
    }  # fmt: skip
    return TaskRecord(**fields)  # type: ignore[arg-type]


def test_its_json_has_the_specifications_names() -> None:
    record = a_record(State.FAILED, error=TaskError("E", "m", "s", retryable=True), payload=msgspec.Raw(b"[1]"))
    found = json.loads(msgspec.json.encode(record))
    assert set(found) == {
        "id", "name", "queue", "status", "attempt", "fence", "priority", "payload", "error", "meta", "worker",
        "enqueuedAt", "startedAt", "finishedAt", "heartbeatAt", "updatedAt",
    }  # fmt: skip
    assert (found["status"], found["payload"]) == ("failed", [1])
    assert found["error"] == {"type": "E", "message": "m", "stack": "s", "retryable": True}


@pytest.mark.parametrize(
    ("state", "stage"),
    [("queued", 0), ("retried", 0), ("running", 1), ("succeeded", 2), ("failed", 2), ("cancelled", 2)],
)
def test_every_state_has_its_stage(state: str, stage: int) -> None:
    record = a_record(State(state))
    assert record.stage == stage
    assert record.is_terminal == (stage == 2)


def test_a_result_is_the_decoded_payload() -> None:
    assert a_record().result() is None
    assert a_record(payload=msgspec.Raw(b'{"a":[1,null]}')).result() == {"a": [1, None]}


def test_moments_are_utc() -> None:
    assert moment(0.5) == datetime(1970, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)
    assert moment_or_none(None) is None
    assert moment_or_none(0.5) == moment(0.5)
