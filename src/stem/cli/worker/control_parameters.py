"""Turns the declared options of a control command into flags and arguments, and what was typed into its options."""

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
import msgspec
from msgspec.structs import FieldInfo

from stem.cli.support import completing, times
from stem.control.registry import Option

_COMPLETED = {
    "id": completing.task_ids,
    "ids": completing.task_ids,
    "queue": completing.queues,
    "queues": completing.queues,
    "task": completing.task_names,
}


def parameters(options: type[msgspec.Struct]) -> list[click.Parameter]:
    """In the order of the fields. A field that is itself a struct of options stands for its fields."""
    found: list[click.Parameter] = []
    for field, bare in _fields(options):
        option = _option(field)
        if option is not None:
            found += _parameters(field, bare, option)
        elif _is_struct(bare):
            found += parameters(bare)
    return found


def read_options(options: type[msgspec.Struct], given: dict[str, Any]) -> msgspec.Struct:
    """Raises click.UsageError where something must be given and is not, and what the options raise."""
    values: dict[str, Any] = {}
    for field, bare in _fields(options):
        option = _option(field)
        if option is not None:
            values[field.name] = _value(field, bare, option, given)
        elif _is_struct(bare):
            values[field.name] = read_options(bare, given)
    return options(**values)


def _parameters(field: FieldInfo, bare: Any, option: Option) -> Iterator[click.Parameter]:
    names = option.flags.split()
    flags = [name for name in names if name.startswith("-")]
    is_many = get_origin(bare) in (tuple, list)
    if not names[0].startswith("-"):
        if is_many:
            yield click.Argument(
                [_arguments(field)], metavar=f"[{names[0]}]...", nargs=-1, shell_complete=_COMPLETED.get(field.name)
            )
        else:
            yield click.Argument([field.name], metavar=names[0], shell_complete=_COMPLETED.get(field.name))
    if flags:
        yield click.Option(
            [*flags, field.name],
            help=option.help,
            is_flag=bare is bool,
            type=None if bare is bool else _type(field.name, bare),
            multiple=is_many,
            metavar=option.metavar,
            default=None if is_many else field.default,
            show_default=get_origin(bare) is Literal,
            shell_complete=_COMPLETED.get(field.name),
        )


def _value(field: FieldInfo, bare: Any, option: Option, given: dict[str, Any]) -> Any:
    if get_origin(bare) not in (tuple, list):
        value = given[field.name]
        return None if option.word_for_none and value.lower() == option.word_for_none else value
    values = dict.fromkeys((*given.get(_arguments(field), ()), *given.get(field.name, ())))
    if not values and option.missing:
        raise click.UsageError(option.missing, click.get_current_context())
    return get_origin(bare)(values) if values else field.default


def _type(name: str, bare: Any) -> Any:
    if get_origin(bare) in (tuple, list):
        return _type(name, get_args(bare)[0])
    if get_origin(bare) is Annotated:
        item, *marks = get_args(bare)
        least = next((mark.ge for mark in marks if isinstance(mark, msgspec.Meta)), None)
        return click.IntRange(int(least)) if item is int and least is not None else item
    if get_origin(bare) is Literal:
        return click.Choice(get_args(bare), case_sensitive=False)
    return times.DURATION if bare is float and name.endswith("_seconds") else bare


def _fields(options: type[msgspec.Struct]) -> list[tuple[FieldInfo, Any]]:
    return [(field, _bare(field.type)) for field in msgspec.structs.fields(options)]


def _bare(annotation: Any) -> Any:
    """A type without what annotates it, and without None."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return _bare(next(each for each in get_args(annotation) if each is not NoneType))
    return annotation


def _option(field: FieldInfo) -> Option | None:
    return next((mark for mark in getattr(field.type, "__metadata__", ()) if isinstance(mark, Option)), None)


def _is_struct(bare: Any) -> bool:
    return isinstance(bare, type) and issubclass(bare, msgspec.Struct)


def _arguments(field: FieldInfo) -> str:
    """The name of what stands without a flag, where the same can also be given with one."""
    return f"{field.name}_arguments"
