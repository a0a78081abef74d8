"""What the end of a task means for the tasks that wait for it. Pure.

A task may name prerequisites. It is stored at once, is blocked until they have ended, and `on_failure` says what the failure
of one of them means. A join runs nothing: it ends by itself when it is released, and its value is made of its prerequisites'.
"""

from enum import Enum, StrEnum
from typing import Any, Protocol

import msgspec

from stem.core.lifecycle import State
from stem.core.record import TaskError

JOIN = "stem.join"  # the names of tasks that are joins
CANVAS = "stem.canvas"  # a join that stands for a whole canvas and describes its shape
JOINS = frozenset({JOIN, CANVAS})

CASCADE_LIMIT = 5_000  # tasks that one call cancels because a prerequisite failed; `reclaim` goes on with the rest
VALUE_OF = "valueOf"  # in a record's meta: the task whose value is this one's
SPAWNED = "spawned."  # begins the keys, in the meta of a join, that name members added while it was blocked

NOT_NEEDED = "not-needed"  # why a task that runs only on failure was cancelled
MAX_CAUSE_MESSAGE = 300


class OnFailure(StrEnum):
    """What the failure of a prerequisite means: cancel the task, run it all the same, or run it only then."""

    CANCEL = "cancel"
    RUN = "run"
    ONLY = "only"


class Effect(Enum):
    """What the end of one prerequisite does to a task that waits for it."""

    COUNT = "count"  # one less is missing; at 0 the task is released
    RELEASE = "release"  # whatever is still missing
    CANCEL = "cancel"  # it can be revived: it goes on counting, and is released at 0


def effect(on_failure: OnFailure, *, has_succeeded: bool) -> Effect:
    """Return what the end of a prerequisite means for a task with this `on_failure`."""
    if has_succeeded or on_failure is OnFailure.RUN:
        return Effect.COUNT
    return Effect.RELEASE if on_failure is OnFailure.ONLY else Effect.CANCEL


def prerequisite_error(task_id: str, name: str, state: State, error: TaskError | None) -> TaskError:
    """Return the error of a task that was cancelled because this prerequisite failed. The first cause is passed on."""
    if error is not None and state is State.CANCELLED and error.type == "PrerequisiteFailed":
        return error  # a task that failed may have raised anything, under any name
    how = "failed" if state is State.FAILED else "was cancelled"
    said = "no reason recorded" if error is None else f"{error.type}: {error.message[:MAX_CAUSE_MESSAGE]}"
    return TaskError("PrerequisiteFailed", f"{task_id} ({name}) {how}: {said}")


def first_cause(error: TaskError | None) -> str | None:
    """Return the id of the task whose failure cancelled this one, or None if it was not cancelled for that."""
    if error is None or error.type != "PrerequisiteFailed":
        return None
    return error.message.split(" ", 1)[0]


class FailedResult(msgspec.Struct, frozen=True, rename="camel"):
    """Stands for the result of a prerequisite that did not succeed, where a task asked to run all the same.

    `cause` is the id of the task that failed first: its own, or that of the one for which it was cancelled.
    """

    id: str
    name: str
    state: State
    error: TaskError | None
    cause: str
    failed: bool = True


class EndedTask(Protocol):
    """What a record says of a task without a result."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def state(self) -> State: ...
    @property
    def error(self) -> TaskError | None: ...


def failed_result(record: EndedTask) -> FailedResult:
    error = None if record.error is None else msgspec.structs.replace(record.error, stack="")
    cause = first_cause(record.error) if record.state is State.CANCELLED else None
    return FailedResult(record.id, record.name, record.state, error, cause or record.id)


def spawned(meta: dict[str, Any]) -> list[str]:
    """Return the members that were added to a join while it was blocked, oldest first."""
    return sorted(key.removeprefix(SPAWNED) for key in meta if key.startswith(SPAWNED))
