"""Signatures and what is composed of them: chain, group, chord, chunks, map. Dicts, so that they travel as arguments."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from stem.compat.celery.current import current_app

MAP, STARMAP = "celery.map", "celery.starmap"


class CelerySignature(dict[str, Any]):
    """A call that is not sent yet."""

    def __init__(
        self,
        task: Any = None,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        type: Any = None,
        subtask_type: str | None = None,
        immutable: bool = False,
        app: Any = None,
        **more: Any,
    ) -> None:
        if isinstance(task, dict):
            super().__init__(task)
        else:
            super().__init__(
                task=task if isinstance(task, str) or task is None else task.name,
                args=tuple(args or ()),
                kwargs=dict(kwargs or {}),
                options={**(options or {}), **more},
                subtask_type=subtask_type,
                immutable=immutable,
            )
        task_app = getattr(type if type is not None else task, "app", None)
        self._app = app if app is not None else task_app

    @property
    def app(self) -> Any:
        return self._app if self._app is not None else current_app

    @property
    def type(self) -> Any:
        """The task."""
        return self.app.tasks[self["task"]]

    @property
    def task(self) -> str:
        return str(self["task"])

    name = task

    @property
    def args(self) -> tuple[Any, ...]:
        return tuple(self.get("args") or ())

    @property
    def kwargs(self) -> dict[str, Any]:
        return dict(self.get("kwargs") or {})

    @property
    def options(self) -> dict[str, Any]:
        found: dict[str, Any] = self.setdefault("options", {})
        return found

    @property
    def subtask_type(self) -> str | None:
        return self.get("subtask_type")

    @property
    def immutable(self) -> bool:
        return bool(self.get("immutable"))

    @property
    def id(self) -> str | None:
        return self.options.get("task_id")

    def clone(self, args: Iterable[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """A copy, with these arguments in front of its own; an immutable one takes none."""
        made = self._copy()
        if not self.immutable:
            made["args"] = (*(args or ()), *self.args)
            made["kwargs"] = {**self.kwargs, **(kwargs or {})}
        made["options"] = {**self.options, **options}
        return made

    partial = clone

    def _copy(self) -> Any:
        made = type(self).__new__(type(self))
        dict.__init__(made, self)
        made._app = self._app
        return made

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply_async(args, kwargs)

    def apply_async(
        self, args: Iterable[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """Send it."""
        return self.app.send_signature(self.clone(args, kwargs, **options))

    def apply(self, args: Iterable[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Run it here and now."""
        return self.app.apply_signature(self.clone(args, kwargs), **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.type(*args, *self.args, **{**self.kwargs, **kwargs})

    def __invert__(self) -> Any:
        return self.apply_async().get()

    def set(self, immutable: bool | None = None, **options: Any) -> Any:
        if immutable is not None:
            self["immutable"] = immutable
        self["options"] = {**self.options, **options}
        return self

    def set_immutable(self, immutable: bool) -> None:
        self["immutable"] = immutable

    def link(self, callback: Any) -> Any:
        """Run the callback with the value, once this has succeeded."""
        self["options"] = {**self.options, "link": [*as_list(self.options.get("link")), callback]}
        return callback

    def link_error(self, callback: Any) -> Any:
        """Run the callback if this has failed."""
        self["options"] = {**self.options, "link_error": [*as_list(self.options.get("link_error")), callback]}
        return callback

    def on_error(self, callback: Any) -> Any:
        self.link_error(callback)
        return self

    def freeze(self, _id: str | None = None, **_options: Any) -> Any:
        """Give it its id, and return the result that it will have."""
        if _id is not None:
            self["options"] = {**self.options, "task_id": _id}
        return self.app.frozen(self)

    def replace(self, args: Any = None, kwargs: Any = None, options: Any = None) -> Any:
        made = self._copy()
        made.update(
            {
                name: value
                for name, value in (("args", args), ("kwargs", kwargs), ("options", options))
                if value is not None
            }
        )
        return made

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, dict):
            return NotImplemented
        return chain(self, other, app=self._app)

    def __deepcopy__(self, memo: Any) -> Any:
        return self.clone()

    def __reduce__(self) -> Any:
        return signature, (dict(self),)

    def __repr__(self) -> str:
        shown = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self['task']}({', '.join(shown)})"


class _Composed(CelerySignature):
    """A composition of signatures."""

    kind = ""

    def __init__(self, kwargs: dict[str, Any], app: Any, options: Mapping[str, Any]) -> None:
        super().__init__(f"celery.{self.kind}", (), kwargs, options, subtask_type=self.kind, app=app)

    @property
    def tasks(self) -> list[Any]:
        found: list[Any] = self["kwargs"]["tasks"]
        return found

    @property
    def app(self) -> Any:
        if self._app is not None:
            return self._app
        return next((part.app for part in self._parts() if part._app is not None), current_app)

    def _parts(self) -> list[Any]:
        return [as_signature(task) for task in self.tasks]

    def clone(self, args: Iterable[Any] | None = None, kwargs: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """A copy; arguments go to the first tasks."""
        made = self._copy()
        made["kwargs"] = self._with_arguments(tuple(args or ()), dict(kwargs or {}))
        made["options"] = {**self.options, **options}
        return made

    def _with_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.tasks)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply_async(args, kwargs)


class chain(_Composed):
    """Tasks one after the other; each gets the value of the one before as its first argument."""

    kind = "chain"

    def __init__(self, *tasks: Any, app: Any = None, **options: Any) -> None:
        given = tasks[0] if len(tasks) == 1 and not isinstance(tasks[0], dict) else tasks
        super().__init__({"tasks": [step for task in given for step in _steps(task)]}, app, options)

    def _with_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        first, rest = self.tasks[:1], self.tasks[1:]
        return {"tasks": [*(as_signature(task).clone(args, kwargs) for task in first), *rest]}

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.tasks))


class group(_Composed):
    """Tasks that run at the same time."""

    kind = "group"

    def __init__(self, *tasks: Any, app: Any = None, **options: Any) -> None:
        given = tasks[0] if len(tasks) == 1 and not isinstance(tasks[0], CelerySignature) else tasks
        if isinstance(given, group):
            given = given.tasks
        super().__init__({"tasks": [as_signature(task).clone() for task in given]}, app, options)

    def _with_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"tasks": [as_signature(task).clone(args, kwargs) for task in self.tasks]}

    def skew(self, start: float = 1.0, stop: float | None = None, step: float = 1.0) -> Any:
        """Let each member start `step` seconds after the one before."""
        for number, task in enumerate(self.tasks):
            countdown = start + number * step
            task.set(countdown=countdown if stop is None else min(countdown, stop))
        return self

    def __repr__(self) -> str:
        return f"group({self.tasks!r})"


class chord(_Composed):
    """A group, and a callback that gets the list of its values."""

    kind = "chord"

    def __init__(self, header: Any, body: Any = None, app: Any = None, **options: Any) -> None:
        members = header.tasks if isinstance(header, group) else header
        form = {
            "header": [as_signature(task) for task in members],
            "body": None if body is None else as_signature(body),
        }
        super().__init__(form, app, options)

    @property
    def tasks(self) -> list[Any]:
        found: list[Any] = self["kwargs"]["header"]
        return found

    @property
    def body(self) -> Any:
        return self["kwargs"]["body"]

    @body.setter
    def body(self, body: Any) -> None:
        self["kwargs"]["body"] = body

    def _parts(self) -> list[Any]:
        return [as_signature(task) for task in (*self.tasks, self.body) if task is not None]

    def _with_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return {"header": [as_signature(task).clone(args, kwargs) for task in self.tasks], "body": self.body}

    def __call__(self, body: Any = None, **options: Any) -> Any:
        """Send it, with this callback."""
        made = self.clone(**options)
        if body is not None:
            made.body = as_signature(body)
        return self.app.send_signature(made)

    def link(self, callback: Any) -> Any:
        self.body = self.body.clone()
        return self.body.link(callback)

    def __repr__(self) -> str:
        return f"chord({self.tasks!r}, {self.body!r})"


class xmap(CelerySignature):
    """One task that runs another for each item, and returns the list of values."""

    def __init__(self, task: Any, it: Iterable[Any], app: Any = None, **options: Any) -> None:
        app = app if app is not None else getattr(task, "app", None)
        super().__init__(MAP, (_name(task), list(it)), {}, options, app=app)


class xstarmap(CelerySignature):
    """As `xmap`; each item is a list of arguments."""

    def __init__(self, task: Any, it: Iterable[Any], app: Any = None, **options: Any) -> None:
        app = app if app is not None else getattr(task, "app", None)
        super().__init__(STARMAP, (_name(task), [list(item) for item in it]), {}, options, app=app)


class chunks(CelerySignature):
    """Items in parts of `n`; each part is one task, which returns the list of values."""

    def __init__(self, task: Any, it: Iterable[Any], n: int, app: Any = None, **options: Any) -> None:
        app = app if app is not None else getattr(task, "app", None)
        parts: list[Any] = [list(map(list, part)) for part in _in_parts(it, n)]
        super().__init__(
            "celery.chunks", (), {"task": _name(task), "it": parts, "n": n}, options, subtask_type="chunks", app=app
        )

    def group(self) -> Any:
        """The group of its parts."""
        of = self["kwargs"]
        return group((xstarmap(of["task"], part, app=self._app) for part in of["it"]), app=self._app)

    def clone(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:  # noqa: ARG002 - takes no arguments
        made = self._copy()
        made["options"] = {**self.options, **options}
        return made

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        return self.group().apply_async(args, kwargs, **{**self.options, **options})

    def __call__(self, **options: Any) -> Any:
        return self.apply_async(**options)


_KINDS: dict[str, Any] = {"chain": chain, "group": group, "chord": chord, "chunks": chunks}


def signature(task: Any, *args: Any, app: Any = None, **kwargs: Any) -> Any:
    """A signature of a task's name, of a task, or of the dict that a signature was."""
    if isinstance(task, CelerySignature):
        return task.clone()
    if not isinstance(task, dict):
        return CelerySignature(task, *args, **{"app": app, **kwargs})
    kind = _KINDS.get(task.get("subtask_type") or "", CelerySignature)
    made = kind.__new__(kind)
    dict.__init__(made, task)
    made._app = app
    return made


subtask = signature
Signature = CelerySignature


def maybe_signature(given: Any, app: Any = None, **_options: Any) -> Any:
    return signature(given, app=app) if isinstance(given, dict) else given


def as_signature(given: Any) -> Any:
    """The signature itself; of a dict the signature that it was."""
    if isinstance(given, CelerySignature):
        return given
    if isinstance(given, dict):
        return signature(given)
    raise TypeError(f"A canvas is made of signatures, and this is {given!r}; write task.s(…).")


def as_list(given: Any) -> list[Any]:
    """One callback or several."""
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple) else [given]


def _steps(task: Any) -> list[Any]:
    one = as_signature(task)
    return one.tasks if isinstance(one, chain) and not one.options else [one.clone()]


def _name(task: Any) -> str:
    if isinstance(task, str):
        return task
    return str(task["task"]) if isinstance(task, dict) else str(task.name)


def _in_parts(it: Iterable[Any], size: int) -> Iterable[list[Any]]:
    stream = iter(it)
    return iter(lambda: list(islice(stream, size)), [])
