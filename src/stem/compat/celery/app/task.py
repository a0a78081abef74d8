"""A task as Celery's users know it: `delay`, `apply_async`, `retry`, `request`, hooks, and attributes as options."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from inspect import signature as parameters_of
from random import randrange
from typing import Any, NoReturn

from stem.compat.celery import canvas, current
from stem.compat.celery.app.request import CallRequest
from stem.compat.celery.codec import to_wire
from stem.compat.celery.exceptions import MaxRetriesExceededError, Retry, seconds_until
from stem.compat.celery.refused import TASK, NotBridged, refuse


class CeleryTask:
    """Subclass it for `base=`. Attributes are the options of the task; `run` is its function."""

    name: str | None = None
    abstract = True
    typing = True
    max_retries: int | None = 3
    default_retry_delay: float = 180
    autoretry_for: tuple[type[BaseException], ...] = ()
    dont_autoretry_for: tuple[type[BaseException], ...] = ()
    retry_kwargs: Mapping[str, Any] = {}
    retry_backoff: bool | float = False
    retry_backoff_max: int = 600
    retry_jitter = True
    rate_limit: str | int | None = None
    time_limit: float | None = None
    soft_time_limit: float | None = None
    ignore_result: bool | None = None
    acks_late: bool | None = None
    acks_on_failure_or_timeout = True
    reject_on_worker_lost: bool | None = None
    store_errors_even_if_ignored = False
    serializer: str | None = None
    queue: str | None = None
    priority: int | None = None
    expires: Any = None
    throws: tuple[type[BaseException], ...] = ()
    stem: Mapping[str, Any] = {}  # options of Stem's own, such as at_most_once or max_concurrency
    is_bound = False

    _app: Any = None

    @property
    def app(self) -> Any:
        return self._app if self._app is not None else current.current_app

    @property
    def request(self) -> CallRequest:
        """The call that runs here; outside of one, an empty request."""
        found = current.running()
        return found.request if found is not None and found.task is self else _NO_REQUEST

    def run(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("Tasks must define the run method.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it here and now."""
        found = current.running()
        if found is not None and found.task is self and not found.is_entered:
            found.is_entered = True  # a class of the project's has overridden __call__ and calls this one
            return self.run(*args, **kwargs)
        with current.run(self, CallRequest(args=list(args), kwargs=kwargs)) as one:
            one.is_entered = True
            return self.run(*args, **kwargs)

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        """Send it with these arguments."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        task_id: str | None = None,
        producer: Any = None,
        link: Any = None,
        link_error: Any = None,
        **options: Any,
    ) -> Any:
        """Send it. Raises TypeError if the arguments do not fit the function, NotBridged for an option that is refused."""
        given = tuple(args or ()), dict(kwargs or {})
        if self.typing:
            parameters_of(self.run).bind(*given[0], **given[1])
        more = {"task_id": task_id, "producer": producer, "link": link, "link_error": link_error}
        options |= {name: value for name, value in more.items() if value is not None}
        return self.app.send_signature(self.signature(*given, **options))

    def apply(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        throw: bool | None = None,
        **options: Any,
    ) -> Any:
        """Run it here and now, with retries and callbacks, as a worker would."""
        return self.app.apply_signature(self.signature(args, kwargs, **options), throw=throw)

    def delay_on_commit(self, *args: Any, **kwargs: Any) -> None:
        """Send it when Django's transaction has been committed."""
        self.apply_async_on_commit(args, kwargs)

    def apply_async_on_commit(self, *args: Any, **kwargs: Any) -> None:
        from django.db import transaction

        transaction.on_commit(lambda: self.apply_async(*args, **kwargs))

    def signature(self, args: Any = None, kwargs: Any = None, *more: Any, **options: Any) -> Any:
        return canvas.CelerySignature(self.name, args, kwargs, *more, **{"app": self._app, **options})

    subtask = signature

    def s(self, *args: Any, **kwargs: Any) -> Any:
        return self.signature(args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Any:
        return self.signature(args, kwargs, immutable=True)

    def chunks(self, it: Iterable[Any], n: int) -> Any:
        return canvas.chunks(self, it, n, app=self._app)

    def map(self, it: Iterable[Any]) -> Any:
        return canvas.xmap(self, it, app=self._app)

    def starmap(self, it: Iterable[Any]) -> Any:
        return canvas.xstarmap(self, it, app=self._app)

    def AsyncResult(self, task_id: str, **options: Any) -> Any:
        return self.app.AsyncResult(task_id, task_name=self.name, **options)

    def retry(
        self,
        args: Any = None,
        kwargs: Any = None,
        exc: BaseException | None = None,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Retry:
        """Have the task run again later. Raises Retry; `exc` or MaxRetriesExceededError if it was retried often enough."""
        request = self.request
        if args is not None or kwargs is not None or options:
            what = "args" if args is not None else "kwargs" if kwargs is not None else min(options)
            raise NotBridged(
                f"self.retry({what}=…) would change the call; use self.replace(self.s(…).set(countdown=…))."
            )
        if request.called_directly:
            raise exc or Retry("Task can be retried")
        limit = self.max_retries if max_retries is None else max_retries
        if limit is not None and request.retries + 1 > limit:
            self._give_up(request, exc)
        when = eta if eta is not None else self.default_retry_delay if countdown is None else countdown
        asked = Retry(exc=exc, when=when, is_eager=request.is_eager)
        if throw:
            raise asked from exc
        return asked

    def _give_up(self, request: CallRequest, exc: BaseException | None) -> NoReturn:
        if exc is not None:
            raise exc
        raise MaxRetriesExceededError(
            f"Can't retry {self.name}[{request.id}] args:{request.args} kwargs:{request.kwargs}",
            task_args=request.args,
            task_kwargs=request.kwargs,
        )

    def autoretry(self, error: BaseException) -> Retry | None:
        """The retry that `autoretry_for` asks for after this error; None if it asks for none. Raises as `retry`."""
        is_asked = isinstance(error, tuple(self.autoretry_for)) and not isinstance(
            error, tuple(self.dont_autoretry_for)
        )
        if not is_asked:
            return None
        options = dict(self.retry_kwargs)
        if self.retry_backoff:
            factor, retries = int(max(1.0, float(self.retry_backoff))), min(self.request.retries, 64)
            seconds = min(int(self.retry_backoff_max), factor * 2**retries)
            options["countdown"] = randrange(seconds + 1) if self.retry_jitter else seconds  # noqa: S311 - no secret
        return self.retry(exc=error, throw=False, **options)

    def replace(self, sig: Any) -> Any:
        """Put a signature in the place of this task: what waits for the task waits for it. Ends the attempt."""
        self._context().replace(self.app.canvas_of(canvas.as_signature(sig)))

    def add_to_chord(self, sig: Any, lazy: bool = False) -> Any:  # noqa: ARG002 - it is sent when this task has ended
        """Add a member to the group that this task is part of."""
        (handle,) = self._context().spawn(self.app.canvas_of(canvas.as_signature(sig)))
        return self.AsyncResult(handle.id)

    def update_state(
        self, task_id: str | None = None, state: str | None = None, meta: Any = None, **_more: Any
    ) -> None:
        """Report a state of your own, with what it means: at most 2 KB."""
        if task_id not in (None, self.request.id):
            raise NotBridged("update_state(task_id=…) of another task has no counterpart; let that task report itself.")
        self._context().progress(None, state or "", celery={"state": state, "meta": to_wire(meta)})

    # Hooks of subclasses

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None: ...
    def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None: ...
    def on_failure(self, exc: BaseException, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None: ...
    def on_retry(self, exc: BaseException, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None: ...
    def after_return(self, status: str, retval: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None: ...

    def _context(self) -> Any:
        context = self.request.context
        if context is None:
            raise RuntimeError("This is for a running task; send it with delay(), or run it with apply().")
        return context

    @property
    def __header__(self) -> Any:
        return self.run

    @property
    def __wrapped__(self) -> Any:
        return self.run

    def __repr__(self) -> str:
        return f"<@task: {self.name} of {self.app!r}>"

    def __getattr__(self, name: str) -> Any:
        refuse(TASK, "Task", name)


def retry_delay(asked: Retry, default_seconds: float) -> float:
    """Seconds until a retry."""
    when = default_seconds if asked.when is None else asked.when
    return max(0.0, seconds_until(when, datetime.now(UTC)))


_NO_REQUEST = CallRequest()
Task = CeleryTask
