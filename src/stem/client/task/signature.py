"""The parameters of a task's function: binds, checks, encodes and decodes its arguments."""

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, Raw, UnsetType

from stem.client.run.context import TaskContext
from stem.client.task.hints import call_option
from stem.client.task.options import CallOptions
from stem.core.envelope import encode_args
from stem.core.errors import InvalidArguments, InvalidTask
from stem.core.ids import canonical
from stem.core.text.encode import encode_json
from stem.core.text.plain import from_plain, has_plain, to_plain

log = logging.getLogger("stem.client")

Fills = Callable[[str, object], bool]  # whether an engine gives the parameter of this name and hint its value

_UNCHANGED = frozenset({type(None), bool, int, float, str, list, tuple, dict})

CONTEXT_CLASS = TaskContext.__name__  # what is left of an annotation that cannot be resolved


class FunctionSignature:
    """The parameters of one function, with a decoder for its arguments that is built once.

    Checked is what the worker will decode: the JSON of the arguments against the annotations. An annotation that JSON has
    no form for counts as Any. Defaults are not stored, so they are those of the code that runs the task.
    """

    def __init__(self, name: str, function: Callable[..., Any], fills: Fills | None = None) -> None:
        parameters = list(inspect.signature(function).parameters.values())
        hints = _hints(function)
        self.name = name
        for parameter in parameters:
            _refuse_positional(name, parameter)
        self.context = _context_of(name, [p.name for p in parameters if _is_context(hints.get(p.name))])
        filled = [p.name for p in parameters if fills is not None and fills(p.name, hints.get(p.name))]
        if len(filled) > 1:
            raise InvalidTask(f"Task {name} takes {' and '.join(filled)}, and its engine fills one; keep one of them.")
        self.filled = filled[0] if filled else None  # by the engine
        self.given = frozenset(each for each in (self.context, self.filled) if each is not None)  # by the worker
        arguments = [p for p in parameters if p.name not in self.given]
        extra = next((p for p in arguments if p.kind is p.VAR_KEYWORD), None)
        named = [p for p in arguments if p is not extra]
        self.names = tuple(p.name for p in named)
        self.positional = tuple(p.name for p in named if p.kind is not p.KEYWORD_ONLY)
        self.required = tuple(p.name for p in named if p.default is p.empty)
        self.optional = frozenset(self.names) - frozenset(self.required)
        self._defaults = {p.name: (p.default, hints.get(p.name, Any)) for p in named if p.default is not p.empty}
        self._known = frozenset(self.names)
        self._required = frozenset(self.required)
        self._takes_more = extra is not None
        self._extra_type = _json_type(hints.get(extra.name, Any)) if extra is not None else None
        self._decoder = _decoder(name, named, hints, forbid_unknown=extra is None)
        optional = [p.replace(default=UNSET, kind=p.KEYWORD_ONLY) for p in named]
        self._make_part_decoder = partial(_decoder, name, optional, hints, forbid_unknown=extra is None)
        # What JSON changes in these, nothing changes back.
        self._untyped = {p.name for p in named if _json_type(hints.get(p.name, Any)) is Any}
        returned = _json_type(hints.get("return", Any))
        self._returns = msgspec.json.Decoder(returned, dec_hook=from_plain)
        self._checks_result = returned not in (Any, None, type(None))

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Bind a call to one object of named arguments. Raises InvalidArguments."""
        arguments = dict(zip(self.positional, args, strict=False))
        if len(args) > len(self.positional):
            raise InvalidArguments(
                f"{self.name} takes {len(self.positional)} positional arguments and got {len(args)}; {self._usage()}."
            )
        if arguments and (twice := arguments.keys() & kwargs.keys()):
            raise InvalidArguments(f"{self.name} got argument {min(twice)!r} twice; give it once.")
        arguments.update(kwargs)
        self._check_names(arguments)
        return arguments

    def bind_after(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], inputs: Iterable[str] = ()
    ) -> tuple[dict[str, Any], str]:
        """Bind a call that also takes the value of a task before it, and return the parameter that the value fills: the first
        that is free, before the positional arguments. `inputs` are filled otherwise. Raises InvalidArguments."""
        taken = {*kwargs, *inputs}
        free = [name for name in self.positional if name not in taken]
        if not free:
            free = [name for name in self.names if name not in taken][:1]
        if not free:
            raise InvalidArguments(
                f"{self.name} cannot take the value of the task before it, because no argument is left for it; "
                "make the signature immutable with task.si(…), or give it one argument less."
            )
        filled, names = free[0], free[1:]
        if len(args) > len(names):
            raise InvalidArguments(
                f"{self.name} gets the value of the task before it as {filled!r}, has {len(names)} more positional arguments "
                f"and got {len(args)}; {self._usage()}."
            )
        return self.bind_without((*inputs, filled), dict(zip(names, args, strict=False)) | dict(kwargs)), filled

    def bind_without(self, inputs: Iterable[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Bind a call whose `inputs` are filled when it starts. Raises InvalidArguments."""
        holes = dict.fromkeys(inputs)
        if twice := holes.keys() & arguments.keys():
            raise InvalidArguments(
                f"{self.name} gets {min(twice)!r} from another task and as an argument; give it once."
            )
        self._check_names({**arguments, **holes})
        return dict(arguments)

    def bind_object(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Bind a call that names all its arguments. Raises InvalidArguments."""
        if not isinstance(arguments, Mapping) or self._takes_more:
            refuse_no_object(arguments)
        self._check_names(arguments)
        return arguments

    def check_parameters(self, option: str, names: Iterable[str]) -> None:
        """Raises InvalidTask if an option names what is no argument: a typing error must not leave it without effect."""
        for name in names:
            if name in self.given or (name not in self._known and not self._takes_more):
                raise InvalidTask(
                    f"{option} of {self.name} names {name!r}, and the task has no such argument; {self._usage()}."
                )

    def _check_names(self, arguments: Mapping[str, Any]) -> None:
        given = arguments.keys()
        if not self._required <= given:
            missing = ", ".join(repr(name) for name in self.required if name not in given)
            raise InvalidArguments(f"{self.name} is missing {missing}; {self._usage()}.")
        if given <= self._known:
            return
        if not self._takes_more:
            raise InvalidArguments(self._unknown(given - self._known))
        if twice := self.given & given:
            raise InvalidArguments(f"Argument {min(twice)!r} of {self.name} is filled in by the worker; leave it out.")

    def encode(self, arguments: Mapping[str, Any], *, limit_bytes: int) -> Raw:
        """Encode bound arguments, checked against the annotations. Raises InvalidArguments."""
        try:
            encoded = encode_args(arguments, limit_bytes=limit_bytes)
        except InvalidArguments:
            self._blame_one(arguments, limit_bytes)
            raise
        if self._takes_more:
            self.decode(encoded)
        else:
            self._decoded(encoded)
        if self._untyped:
            self._warn_of_changed(arguments)
        return encoded

    def encode_part(self, arguments: Mapping[str, Any], *, limit_bytes: int) -> Raw:
        """Encode arguments of which some are filled when the task starts. Raises InvalidArguments."""
        encoded = encode_args(arguments, limit_bytes=limit_bytes)
        self._part(encoded)
        if self._untyped:
            self._warn_of_changed(arguments)
        return encoded

    @cached_property
    def _part_decoder(self) -> "msgspec.json.Decoder[Any]":
        return self._make_part_decoder()

    def _blame_one(self, arguments: Mapping[str, Any], limit_bytes: int) -> None:
        """Raises InvalidArguments for the first argument that is at fault by itself."""
        for name, value in arguments.items():
            encode_json(value, what=f"argument {name!r} of {self.name}", limit_bytes=limit_bytes)

    def _warn_of_changed(self, arguments: Mapping[str, Any]) -> None:
        """Warn once per unannotated parameter whose value JSON changes."""
        for name, value in arguments.items():
            kind = type(value)
            if kind not in _UNCHANGED and name in self._untyped:
                self._untyped.discard(name)
                log.warning(
                    "argument.unannotated: Argument %r of %s is a %s and arrives as plain JSON, because the parameter has "
                    "no annotation that could restore it; annotate it: %s: %s.",
                    name,
                    self.name,
                    kind.__qualname__,
                    name,
                    kind.__qualname__,
                )

    def fits(self, lines: bytes) -> bool:
        """Whether every line is JSON that `encode` would accept. False may also mean: check them one by one."""
        if self._takes_more:
            return False
        try:
            self._decoder.decode_lines(lines)
        except Exception:  # noqa: BLE001 - `encode` says which one and why
            return False
        return True

    def decode(self, encoded: Raw) -> dict[str, Any]:
        """Decode keyword arguments into the annotated types. Raises InvalidArguments."""
        return self._by_name(self._decoded(encoded), encoded)

    def _by_name(self, decoded: Any, encoded: Raw) -> dict[str, Any]:
        values = msgspec.structs.astuple(decoded)
        arguments = {name: value for name, value in zip(self.names, values, strict=True) if value is not UNSET}
        if self._takes_more:
            arguments.update(self._more(encoded))
        return arguments

    def identifying_arguments(self, encoded: Raw) -> dict[str, Raw]:
        """Return the arguments that tell two calls apart: decoded, without those that equal their default. Some may be missing,
        because they are filled when the task starts."""
        forms = {name: canonical(value) for name, value in self._by_name(self._part(encoded), encoded).items()}
        usual = self._default_forms
        return {name: form for name, form in forms.items() if bytes(form) != usual.get(name)}

    @cached_property
    def _default_forms(self) -> dict[str, bytes]:
        forms = {}
        for name, (default, hint) in self._defaults.items():
            # A default may be anything; one that no argument can equal is left out.
            with suppress(Exception):
                plain = msgspec.to_builtins(default, enc_hook=to_plain)
                forms[name] = bytes(canonical(msgspec.convert(plain, _json_type(hint), dec_hook=from_plain)))
        return forms

    def decode_result(self, payload: Raw) -> Any:
        """Decode the returned value as the annotated type, or as plain JSON if it does not fit."""
        try:
            return self._returns.decode(payload)
        except msgspec.ValidationError:
            return msgspec.json.decode(payload)

    def result_fault(self, payload: Raw) -> str | None:
        """Return a sentence if the returned value does not fit the annotation."""
        if not self._checks_result:
            return None
        try:
            self._returns.decode(payload)
        except Exception as error:  # noqa: BLE001 - as in `_decoded`
            return (
                f"{self.name} returned what its annotation does not allow: {error}; correct the code or the annotation."
            )
        return None

    def _decoded(self, encoded: Raw) -> Any:
        try:
            return self._decoder.decode(encoded)
        except Exception as error:  # a dataclass of the task's may raise anything in its __post_init__
            raise self._misfit(error) from error

    def _part(self, encoded: Raw) -> Any:
        """The same for arguments of which some are missing."""
        try:
            return self._part_decoder.decode(encoded)
        except Exception as error:  # as above
            raise self._misfit(error) from error

    def _more(self, encoded: Raw) -> dict[str, Any]:
        try:
            return {
                name: msgspec.convert(value, self._extra_type, dec_hook=from_plain)
                for name, value in msgspec.json.decode(encoded, type=dict[str, Any]).items()
                if name not in self._known and name not in self.given
            }
        except Exception as error:  # as above
            raise self._misfit(error) from error

    def _misfit(self, error: Exception) -> InvalidArguments:
        return InvalidArguments(f"The arguments do not fit {self.name}: {error}; {self._usage()}.")

    def _unknown(self, names: Set[str]) -> str:
        first = min(names)
        option = call_option(first, CallOptions.__annotations__)
        if option is None:
            return f"{self.name} has no argument {', '.join(map(repr, sorted(names)))}; {self._usage()}."
        return (
            f"{self.name} has no argument {first!r}, which is an option of the call; "
            f"write it as task.options({option}=…).enqueue(…)."
        )

    def _usage(self) -> str:
        shown = [name if name in self._required else f"{name}=…" for name in self.names]
        return f"it takes ({', '.join([*shown, '**'] if self._takes_more else shown)})"


def refuse_no_object(arguments: object) -> None:
    if not isinstance(arguments, Mapping) or not all(isinstance(name, str) for name in arguments):
        raise InvalidArguments("The arguments are not one object of named arguments; pass a dict with string keys.")


def _refuse_positional(name: str, parameter: inspect.Parameter) -> None:
    if parameter.kind is parameter.VAR_POSITIONAL:
        raise InvalidTask(f"Task {name} takes *{parameter.name}, and arguments travel by name; take a list instead.")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise InvalidTask(
            f"Parameter {parameter.name!r} of task {name} is positional-only, and arguments travel by name; remove the '/'."
        )


def _decoder(
    name: str, parameters: list[inspect.Parameter], hints: dict[str, Any], *, forbid_unknown: bool
) -> "msgspec.json.Decoder[Any]":
    fields: list[Any] = []
    for number, parameter in enumerate(parameters):
        wanted = _json_type(hints.get(parameter.name, Any))
        if parameter.default is parameter.empty:
            fields.append((f"a{number}", wanted))
        elif wanted is Any:
            fields.append((f"a{number}", Any, UNSET))
        else:
            fields.append((f"a{number}", _or_unset(wanted), UNSET))
    # Fields have names of their own, so that no parameter's name can clash with a struct's.
    struct = msgspec.defstruct(
        "Arguments",
        fields,
        kw_only=True,
        forbid_unknown_fields=forbid_unknown,
        rename={f"a{number}": parameter.name for number, parameter in enumerate(parameters)},
        namespace={"__doc__": f"The arguments of {name}."},
    )
    return msgspec.json.Decoder(struct, dec_hook=from_plain)


def _or_unset(wanted: Any) -> Any:
    return Union[wanted, UnsetType]  # noqa: UP007 - `wanted` is a value here, and may be one that has no `|`


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Resolve annotations. One that cannot be resolved (imported for type checking only) stays text."""
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError):
        pass
    plain = inspect.unwrap(function)
    hints = {}
    for name, annotation in getattr(plain, "__annotations__", {}).items():
        single = type("Single", (), {"__annotations__": {name: annotation}, "__module__": plain.__module__})
        try:
            hints[name] = get_type_hints(single, getattr(plain, "__globals__", {}), include_extras=True)[name]
        except (NameError, AttributeError, TypeError, SyntaxError):
            hints[name] = annotation
    return hints


def _context_of(name: str, contexts: list[str]) -> str | None:
    if len(contexts) > 1:
        raise InvalidTask(
            f"Task {name} takes {' and '.join(contexts)}, and an attempt has one context; keep one of them."
        )
    return contexts[0] if contexts else None


def _is_context(hint: Any) -> bool:
    if isinstance(hint, str):
        return hint.split("[")[0].split(".")[-1].strip() == CONTEXT_CLASS
    if get_origin(hint) is not None:
        return any(_is_context(part) for part in (get_origin(hint), *get_args(hint)))
    return isinstance(hint, type) and issubclass(hint, TaskContext)


def _json_type(hint: Any) -> Any:
    """Return the annotation if msgspec can decode it from JSON, else Any."""
    try:
        info = msgspec.inspect.type_info(hint)
        msgspec.json.Decoder(hint)
        msgspec.json.Decoder(_or_unset(hint))
    except (TypeError, NameError):
        return Any
    return Any if _holds_custom(info, set()) else hint


def _holds_custom(info: Any, seen: set[int]) -> bool:
    """Whether the type contains a class that has no JSON form."""
    if id(info) in seen:
        return False
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        return not has_plain(info.cls)
    if isinstance(info, tuple):
        return any(_holds_custom(part, seen) for part in info)
    if isinstance(info, (msgspec.inspect.Type, msgspec.inspect.Field)):
        return any(_holds_custom(getattr(info, name), seen) for name in info.__struct_fields__)
    return False
