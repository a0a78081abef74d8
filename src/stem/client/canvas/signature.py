"""A signature: one call of a task, to be composed with others."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from stem.client.canvas.builder import Builder, Building, Scope, Source
from stem.client.canvas.canvas import Canvas, of_all
from stem.client.canvas.form import plain_arguments
from stem.client.store_connection import StoreConnection
from stem.core.errors import InvalidArguments
from stem.core.text.masking import MASK
from stem.core.text.sensitive import masked_object

if TYPE_CHECKING:
    from stem.client.send.sender import Sender

R_co = TypeVar("R_co", covariant=True)


class Signature(Canvas[R_co]):
    """`task.s(…)`, or `task.si(…)` if it is immutable. Its arguments are checked when it is submitted."""

    kind = "task"

    def __init__(
        self,
        sender: "Sender[Any, Any]",
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        is_immutable: bool = False,
        **of_all: Any,
    ) -> None:
        self.sender = sender
        self.args = args
        self.kwargs = dict(kwargs or {})
        self.is_immutable = is_immutable
        vars(self).update(of_all)

    @property
    def call_options(self) -> Mapping[str, Any]:
        """Its own options, and those of `task.options(…)`."""
        return {**self.sender.given_options, **self.options} if self.sender.given_options else self.options

    def parts(self) -> Iterable[Canvas[Any]]:
        return ()

    def own_connection(self) -> StoreConnection | None:
        return self.sender.store_connection

    def decode(self, value: msgspec.Raw) -> Any:
        signature = self.sender.definition.signature
        return msgspec.json.decode(value) if signature is None else signature.decode_result(value)

    def build(self, builder: Builder, source: Source, scope: Scope, end_id: str | None) -> Building:
        task_id = builder.task(self, source, scope, end_id)
        yield from self.attach(builder, task_id, scope)
        return task_id

    def bound(self, source: Source) -> tuple[Mapping[str, Any], dict[str, str]]:
        """Its arguments by name, and the parameters that take the values of other tasks. Raises InvalidArguments."""
        signature = self.sender.definition.signature
        args, kwargs, inputs = self.args, self.kwargs, dict(source.inputs)
        takes = not self.is_immutable
        if takes and not source.after:
            args, kwargs = (*source.args, *args), {**kwargs, **source.kwargs}
        if signature is None:
            return self._bound_elsewhere(args, kwargs, takes and source.value is not None), inputs
        if takes and source.value is not None:
            arguments, filled = signature.bind_after(args, kwargs, inputs)
            return arguments, {**inputs, filled: source.value}
        if not inputs:
            return self.sender.bind(args, kwargs), {}
        free = [name for name in signature.positional if name not in inputs]
        if len(args) > len(free):
            raise InvalidArguments(f"{signature.name} got {len(args)} positional arguments for {len(free)} parameters.")
        named = dict(zip(free, args, strict=False))
        if twice := named.keys() & kwargs.keys():
            raise InvalidArguments(f"{signature.name} got argument {min(twice)!r} twice; give it once.")
        return signature.bind_without(inputs, {**named, **kwargs}), inputs

    def _bound_elsewhere(self, args: tuple[Any, ...], kwargs: dict[str, Any], takes_value: bool) -> dict[str, Any]:
        name = self.sender.definition.name
        if args:
            raise InvalidArguments(f"The code of {name} is not here, so its arguments go by name; name them.")
        if takes_value:
            raise InvalidArguments(
                f"The code of {name} is not here, so nobody knows which argument takes the value of the task before it; "
                "make it immutable, or use a workflow with inputs={…}."
            )
        return kwargs

    def _form(self) -> dict[str, Any]:
        form: dict[str, Any] = {"task": self.sender.definition.name, **plain_arguments(self.args, self.kwargs)}
        return {**form, "immutable": True} if self.is_immutable else form

    def _changed(self, **changes: Any) -> Self:
        return type(self)(
            self.sender, self.args, self.kwargs, is_immutable=self.is_immutable, **{**of_all(self), **changes}
        )

    def __repr__(self) -> str:
        names = self.sender.definition.plan.sensitive
        positional = self.args if not names else (MASK,) * len(self.args)  # whose names depend on what comes before it
        named = masked_object(self.kwargs, names)
        shown = [*map(repr, positional), *(f"{name}={value!r}" for name, value in named.items())]
        return f"{self.sender.definition.name}.{'si' if self.is_immutable else 's'}({', '.join(shown)})"
