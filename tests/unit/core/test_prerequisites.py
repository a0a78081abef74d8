"""What the end of a task means for those that wait for it."""

import msgspec
import pytest

from stem.core.lifecycle import State
from stem.core.prerequisites import (
    MAX_CAUSE_MESSAGE,
    Effect,
    OnFailure,
    effect,
    failed_result,
    first_cause,
    prerequisite_error,
    spawned,
)
from stem.core.record import TaskError, TaskRecord, moment

BOOM = TaskError("ValueError", "boom", "Traceback: line 1", retryable=True)


def a_record(state: State, error: TaskError | None) -> TaskRecord:
    return TaskRecord(
        id="a", name="shop.pay", queue="q", state=state, attempt=0, fence=1, priority=5, error=error,
        enqueued_at=moment(1), updated_at=moment(1),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("on_failure", "after_success", "after_failure"),
    [
        (OnFailure.CANCEL, Effect.COUNT, Effect.CANCEL),
        (OnFailure.RUN, Effect.COUNT, Effect.COUNT),
        (OnFailure.ONLY, Effect.COUNT, Effect.RELEASE),
    ],
)
def test_a_success_counts_and_a_failure_does_what_was_asked_for(
    on_failure: OnFailure, after_success: Effect, after_failure: Effect
) -> None:
    assert effect(on_failure, has_succeeded=True) is after_success
    assert effect(on_failure, has_succeeded=False) is after_failure


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (State.FAILED, BOOM, "a (shop.pay) failed: ValueError: boom"),
        (State.CANCELLED, TaskError("Cancelled", "purged"), "a (shop.pay) was cancelled: Cancelled: purged"),
        (State.CANCELLED, None, "a (shop.pay) was cancelled: no reason recorded"),
    ],
)
def test_the_error_of_what_is_cancelled_says_which_task_failed_and_why(
    state: State, error: TaskError | None, message: str
) -> None:
    assert prerequisite_error("a", "shop.pay", state, error) == TaskError("PrerequisiteFailed", message)


def test_the_first_cause_is_passed_on_unchanged() -> None:
    first = prerequisite_error("a", "shop.pay", State.FAILED, BOOM)
    assert prerequisite_error("b", "shop.ship", State.CANCELLED, first) == first
    assert first_cause(first) == "a"


def test_an_error_of_the_same_name_raised_by_a_task_is_no_first_cause() -> None:
    said = TaskError("PrerequisiteFailed", "nobody (x) failed: it was not me")
    error = prerequisite_error("a", "shop.pay", State.FAILED, said)
    assert first_cause(error) == "a"
    assert failed_result(a_record(State.FAILED, said)).cause == "a"


def test_a_long_message_is_cut() -> None:
    error = prerequisite_error("a", "n", State.FAILED, TaskError("E", "m" * 1000))
    assert error.message == "a (n) failed: E: " + "m" * MAX_CAUSE_MESSAGE


def test_only_a_failed_prerequisite_is_a_first_cause() -> None:
    assert first_cause(None) is None
    assert first_cause(BOOM) is None
    assert first_cause(TaskError("Cancelled", "a was revoked")) is None


def test_a_failed_result_tells_everything_but_the_stack() -> None:
    told = msgspec.json.decode(msgspec.json.encode(failed_result(a_record(State.FAILED, BOOM))))
    assert told == {
        "id": "a",
        "name": "shop.pay",
        "state": "failed",
        "error": {"type": "ValueError", "message": "boom", "stack": "", "retryable": True},
        "cause": "a",
        "failed": True,
    }


def test_the_cause_of_a_cancelled_result_is_the_task_that_failed_first() -> None:
    error = prerequisite_error("first", "n", State.FAILED, BOOM)
    assert failed_result(a_record(State.CANCELLED, error)).cause == "first"
    assert failed_result(a_record(State.CANCELLED, TaskError("Cancelled", "purged"))).cause == "a"
    assert failed_result(a_record(State.CANCELLED, None)).error is None


def test_members_added_later_are_read_from_the_meta_of_their_join() -> None:
    assert spawned({"by": "me", "spawned.b": True, "spawned.a": True, "progress": {"spawned.c": 1}}) == ["a", "b"]
    assert spawned({}) == []
