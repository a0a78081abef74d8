"""The keys of a call: what makes two calls of a task the same one, for `unique`, `debounce`, `singleton` and `cancel_running`."""

from collections.abc import Mapping
from typing import Any

from stem.client.task.flow_control import HEADER
from stem.client.task.options import CallPlan
from stem.client.task.signature import FunctionSignature
from stem.core.envelope import Unique
from stem.core.errors import InvalidArguments
from stem.core.ids import canonical, content_key


def unique_of(
    name: str,
    plan: CallPlan,
    arguments: Mapping[str, Any],
    headers: Mapping[str, str],
    signature: FunctionSignature | None,
) -> Unique | None:
    """Return the uniqueness key of a call, if it has one. Raises InvalidArguments."""
    if plan.supersedes is not None:
        key = content_key(["newest", name, plan.queue, _content(plan, arguments, headers, signature)])
        return Unique(key, None, plan.supersedes, plan.debounce_max_seconds)
    if plan.unique == "":
        return None
    key = content_key([name, plan.queue, _content(plan, arguments, headers, signature)])
    return Unique(key, None if plan.unique == "until_done" else plan.unique)


def singleton_key(
    plan: CallPlan, arguments: Mapping[str, Any], headers: Mapping[str, str], signature: FunctionSignature | None
) -> str:
    return content_key([_content(plan, arguments, headers, signature)])


def _content(
    plan: CallPlan, arguments: Mapping[str, Any], headers: Mapping[str, str], signature: FunctionSignature | None
) -> Any:
    """Return what identifies the call: the parts that the task's `key` names, or all arguments, as decoded for the function
    if it is known here. Without a key, headers do not count: a trace id must not make a duplicate look new."""
    try:
        ordered = canonical(dict(arguments))
        if plan.key is None:
            return ordered if signature is None else signature.identifying_arguments(ordered)
        named = (
            {name: canonical(value) for name, value in arguments.items()}
            if signature is None
            else signature.identifying_arguments(ordered)
        )
        return [
            headers.get(part.removeprefix(HEADER)) if part.startswith(HEADER) else named.get(part)
            for part in plan.key  # None for an argument that has its default, or is not given
        ]
    except TypeError as error:
        raise InvalidArguments("A unique call holds a set that has no order to compare it by; pass a list.") from error
    except (RecursionError, OverflowError) as error:
        raise InvalidArguments(
            f"The arguments of a unique call cannot be compared ({error}); simplify them."
        ) from error
