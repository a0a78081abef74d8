"""The result of one task, and of a task that ran here at once."""

from collections.abc import Callable, Iterator
from typing import Any

from stem.compat.celery import states
from stem.compat.celery.codec import from_wire
from stem.compat.celery.current import current_app, running
from stem.compat.celery.exceptions import CeleryTimeout, TaskRevokedError
from stem.compat.celery.failures import exception_of
from stem.compat.celery.refused import RESULT, refuse
from stem.core.errors import TaskNotFound, WaitTimeout
from stem.core.lifecycle import State
from stem.core.prerequisites import first_cause
from stem.core.record import TaskFilter, TaskRecord

MOST_CHILDREN = 1000


class ResultUnknown(CeleryTimeout):
    """There is no task of that id, so no result will come; Celery would wait for it."""


class AsyncResult:
    """The result of one task, by its id."""

    def __init__(
        self,
        id: str,
        backend: Any = None,  # noqa: ARG002 - results are with the tasks
        task_name: str | None = None,
        app: Any = None,
        parent: Any = None,
    ) -> None:
        if not id:
            raise ValueError(f"AsyncResult needs the id of a task, and got {id!r}.")
        self.id = str(id)
        self.app = app if app is not None else current_app
        self.parent = parent
        self.task_name = task_name
        self._ended: TaskRecord | None = None
        self._is_forgotten = False

    @property
    def task_id(self) -> str:
        return self.id

    @property
    def state(self) -> str:
        """PENDING also for an id that nobody knows."""
        return self._state(self._record())

    status = state

    @property
    def result(self) -> Any:
        """The value, the exception of a failure, or what `update_state` said."""
        record = self._record()
        state = self._state(record)
        if record is None or state == states.PENDING:
            return None
        if state == states.SUCCESS:
            return from_wire(self._handle().value_of(record))
        if state in states.EXCEPTION_STATES:
            return self._exception(record, state)
        return {"hostname": record.worker} if state == states.STARTED else _told(record)["meta"]

    info = result

    @property
    def traceback(self) -> str | None:
        record = self._cause(self._record())
        return record.error.stack or None if record is not None and record.error is not None else None

    @property
    def name(self) -> str | None:
        record = self._record()
        return self.task_name if record is None else record.name

    @property
    def queue(self) -> str | None:
        record = self._record()
        return None if record is None else record.queue

    @property
    def worker(self) -> str | None:
        record = self._record()
        return None if record is None else record.worker

    @property
    def retries(self) -> int | None:
        record = self._record()
        return None if record is None else record.attempt

    @property
    def date_done(self) -> Any:
        record = self._record()
        return None if record is None else record.finished_at

    @property
    def children(self) -> list["AsyncResult"]:
        """The tasks that this one has sent, and those that followed it."""
        store = self.app.stem.store
        page = store.results.page(TaskFilter(meta={"parentId": self.id}), limit=MOST_CHILDREN)
        found = [each for each in reversed(page.items) if not each.name.startswith("stem.")]
        return [AsyncResult(each.id, app=self.app, parent=self) for each in found]

    def ready(self) -> bool:
        return self.state in states.READY_STATES

    def successful(self) -> bool:
        return self.state == states.SUCCESS

    def failed(self) -> bool:
        return self.state == states.FAILURE

    def get(
        self,
        timeout: float | None = None,
        propagate: bool = True,
        interval: float = 0.5,  # noqa: ARG002 - nothing is polled
        no_ack: bool = True,  # noqa: ARG002 - as above
        follow_parents: bool = True,  # noqa: ARG002 - a failure reaches all that follow
        callback: Callable[[str, Any], Any] | None = None,
        disable_sync_subtasks: bool = True,
        **_options: Any,
    ) -> Any:
        """Wait for the value. Raises what the task raised, TimeoutError, or RuntimeError inside a task."""
        if disable_sync_subtasks:
            refuse_within_task()
        try:
            record = self._ended or self._handle().wait(timeout)
        except WaitTimeout as error:
            raise CeleryTimeout("The operation timed out.") from error
        except TaskNotFound as error:
            raise ResultUnknown(str(error)) from error
        self._ended = record
        if propagate:
            self.maybe_throw()
        value = self.result
        if callback is not None:
            callback(self.id, value)
        return value

    wait = get

    def maybe_throw(self, propagate: bool = True, callback: Any = None) -> Any:  # noqa: ARG002 - Celery's signature
        """Raise the failure, if the task has failed or was revoked."""
        record = self._record()
        state = self._state(record)
        if propagate and record is not None and state in states.PROPAGATE_STATES:
            raise self._exception(record, state)
        return self.result

    maybe_reraise = maybe_throw

    def revoke(self, terminate: bool = False, signal: Any = None, **_options: Any) -> None:
        """Do not run it; with `terminate` stop it if it runs."""
        self.app.control.revoke(self.id, terminate=terminate, signal=signal)

    def forget(self) -> None:
        """Forget it here. The record stays in the store for its retention, for operators."""
        self._is_forgotten = True

    def then(self, callback: Callable[["AsyncResult"], Any], on_error: Any = None) -> "AsyncResult":  # noqa: ARG002
        """Call back with this object once the result is there; waits for it."""
        self.get(propagate=False)
        callback(self)
        return self

    def as_tuple(self) -> Any:
        parent = None if self.parent is None else self.parent.as_tuple()
        return (self.id, parent), None

    def as_list(self) -> list[str]:
        return [self.id, *([] if self.parent is None else self.parent.as_list())]

    def collect(self, timeout: float | None = None, **_options: Any) -> Iterator[tuple["AsyncResult", Any]]:
        """This result and those of the tasks that it has sent, one after the other."""
        yield self, self.get(timeout, disable_sync_subtasks=False)
        for child in self.children:
            yield from child.collect(timeout)

    def _handle(self) -> Any:
        return self.app.stem.handle(self.id)

    def _record(self) -> TaskRecord | None:
        if self._is_forgotten:
            return None
        if self._ended is None:
            try:
                record: TaskRecord = self._handle().status()
            except TaskNotFound:
                return None
            self._ended = record if record.is_terminal else None
            return record
        return self._ended

    def _state(self, record: TaskRecord | None) -> str:
        if record is None:
            return states.PENDING
        if record.state is State.RUNNING and (told := _told(record)):
            return str(told["state"])
        if record.state is State.CANCELLED and first_cause(record.error) is not None:
            return states.FAILURE  # something that it waited for has failed
        return states.OF_STEM[record.state]

    def _exception(self, record: TaskRecord, state: str) -> BaseException:
        if state == states.REVOKED:
            return TaskRevokedError(record.error.message if record.error is not None else "revoked")
        cause = self._cause(record)
        return exception_of(None if cause is None else cause.error)

    def _cause(self, record: TaskRecord | None) -> TaskRecord | None:
        """The record of the task that failed, if that was another one."""
        cause = None if record is None else first_cause(record.error)
        if cause is None:
            return record
        found: TaskRecord | None = self.app.stem.store.results.get([cause], past_retention=True).get(cause)
        return found or record

    def __eq__(self, other: object) -> bool:
        return other == self.id if isinstance(other, str) else isinstance(other, AsyncResult) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return self.id

    def __repr__(self) -> str:
        return f"<AsyncResult: {self.id}>"

    def __reduce__(self) -> Any:
        return AsyncResult, (self.id, None, self.task_name)

    def __getattr__(self, name: str) -> Any:
        refuse(RESULT, "AsyncResult", name)


class EagerResult:
    """The result of a task that ran here at once."""

    def __init__(
        self, id: str, ret_value: Any, state: str, traceback: str | None = None, name: str | None = None
    ) -> None:
        self.id = self.task_id = id
        self.result = self.info = ret_value
        self.state = self.status = state
        self.traceback = traceback
        self.name = name
        self.parent: Any = None
        self.children: list[Any] = []

    def get(self, timeout: float | None = None, propagate: bool = True, **_options: Any) -> Any:  # noqa: ARG002
        if propagate and self.state in states.PROPAGATE_STATES:
            raise self.result if isinstance(self.result, BaseException) else Exception(self.result)
        return self.result

    wait = get

    def ready(self) -> bool:
        return True

    def successful(self) -> bool:
        return self.state == states.SUCCESS

    def failed(self) -> bool:
        return self.state == states.FAILURE

    def forget(self) -> None: ...

    def revoke(self, *_args: Any, **_options: Any) -> None:
        self.state = self.status = states.REVOKED

    def __repr__(self) -> str:
        return f"<EagerResult: {self.id}>"


def refuse_within_task() -> None:
    """Raises RuntimeError: a task that waits for others keeps the place that they need."""
    found = running()
    if found is not None and not found.request.called_directly and not found.request.is_eager:
        raise RuntimeError(
            "Never call result.get() within a task: it keeps the place that the other task needs. Use a chain or a "
            "callback, or get(disable_sync_subtasks=False)."
        )


def _told(record: TaskRecord) -> dict[str, Any]:
    """What `update_state` said last; empty if nothing."""
    progress = record.meta.get("progress")
    told = progress.get("celery") if isinstance(progress, dict) else None
    return (
        {"state": told["state"], "meta": from_wire(told.get("meta"))}
        if isinstance(told, dict) and told.get("state")
        else {}
    )
