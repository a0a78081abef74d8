"""The definition of a task: its function, signature and options."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import CellType
from typing import Any, cast

import msgspec

from stem.client.reachable import SCRIPT, is_made_at_import
from stem.client.task.flow_control import check_key, places, planned_flow
from stem.client.task.options import CallPlan, TaskOptions, check_limits, check_rate, check_unique
from stem.client.task.policy import (
    RetryCallable,
    check_classes,
    check_max_retries,
    check_retry,
    check_retry_on,
    seconds,
)
from stem.client.task.signature import Fills, FunctionSignature
from stem.core.decisions.ratelimit import Rate, parse_rate
from stem.core.decisions.retry import RetryStrategy
from stem.core.decisions.routing import Route, Routes
from stem.core.envelope import check_name, check_priority, check_queue, check_sensitive
from stem.core.errors import InvalidTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """The app's defaults for its tasks."""

    queue: str
    max_retries: int
    retry: RetryStrategy | RetryCallable
    retry_on: tuple[type[BaseException], ...] | None = None  # None: all
    no_retry_on: tuple[type[BaseException], ...] = ()
    soft_limit: float | None = None
    hard_limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One task. `plan` is for calls without options, with the app's routes. Limits and retry strategy stay here, so a change of
    the code also applies to calls that already wait; options of a call travel in its envelope."""

    name: str
    aliases: tuple[str, ...] = ()
    function: Callable[..., Any]
    signature: FunctionSignature | None  # None: the code is elsewhere
    plan: CallPlan
    retry: RetryStrategy | RetryCallable
    soft_limit: float | None = None
    hard_limit: float | None = None
    retry_on: tuple[type[BaseException], ...] | None = None  # None: all
    no_retry_on: tuple[type[BaseException], ...] = ()
    max_concurrency: int | None = None
    concurrency_per: str | None = None  # the header whose values have places of their own
    rate_limit: Rate | None = None
    rate_burst: float | None = None  # None: as much as the rate suggests
    rate_per: str | None = None  # the header whose values have rates of their own
    isolate: bool = True
    ignore_result: bool = False
    at_most_once: bool = False
    engine: str | None = None  # None: a plain call
    is_made_at_import: bool = True
    route: Route | None = None  # the rule that has changed the plan
    declared_queue: str = ""  # of the task, where there is such a rule


def defaults(
    *,
    queue: str,
    max_retries: int,
    retry: Any,
    retry_on: Any = None,
    no_retry_on: Any = None,
    soft_limit: Any = None,
    hard_limit: Any = None,
) -> Defaults:
    """Raises InvalidTask."""
    soft, hard = _above_zero("soft_limit", soft_limit), _above_zero("hard_limit", hard_limit)
    check_limits(soft, hard)
    return Defaults(
        queue=check_queue(queue),
        max_retries=check_max_retries(max_retries),
        retry=check_retry(retry),
        retry_on=_given(retry_on, None, check_retry_on),
        no_retry_on=_given(no_retry_on, (), partial(check_classes, "no_retry_on")),
        soft_limit=soft,
        hard_limit=hard,
    )


def define(function: Callable[..., Any], defaults: Defaults, options: TaskOptions) -> Definition:
    """Check the options of a task and complete them with the app's defaults. Raises InvalidTask."""
    _refuse_what_is_no_function(function)
    get = cast("Mapping[str, Any]", options).get
    name = get("name")
    name = check_name(default_name(function) if name is None else name)
    soft = _given(get("soft_limit"), defaults.soft_limit, partial(_above_zero, "soft_limit"))
    hard = _given(get("hard_limit"), defaults.hard_limit, partial(_above_zero, "hard_limit"))
    check_limits(soft, hard)
    limit, per = places(options)
    check_rate(get("rate_limit"), get("rate_burst"), get("rate_per"))
    isolate, at_most_once, engine = get("isolate", True), get("at_most_once", False), get("engine")
    plan = CallPlan(
        queue=_given(get("queue"), defaults.queue, check_queue),
        priority=_given(get("priority"), 5, check_priority),
        max_retries=_check_once(at_most_once, get("max_retries"), defaults.max_retries),
        unique=_given(get("unique"), "", check_unique),
        **planned_flow(options),
        visibility_timeout=_above_zero("visibility_timeout", get("visibility_timeout")),
        sensitive=_given(get("sensitive"), (), check_sensitive),
    )
    signature = FunctionSignature(name, function, _fills(name, function, engine, isolate))
    check_key(plan.key, signature)
    signature.check_parameters("sensitive", (each.partition(".")[0] for each in plan.sensitive))
    return Definition(
        name=name,
        aliases=_check_aliases(get("aliases")),
        function=function,
        signature=signature,
        plan=plan,
        retry=_given(get("retry"), defaults.retry, check_retry),
        soft_limit=soft,
        hard_limit=hard,
        retry_on=_given(get("retry_on"), defaults.retry_on, check_retry_on),
        no_retry_on=_given(get("no_retry_on"), defaults.no_retry_on, partial(check_classes, "no_retry_on")),
        max_concurrency=limit,
        concurrency_per=per,
        rate_limit=_given(get("rate_limit"), None, parse_rate),
        rate_burst=_given(get("rate_burst"), None, float),
        rate_per=get("rate_per"),
        isolate=isolate,
        ignore_result=_switch("ignore_result", get("ignore_result", False)),
        at_most_once=at_most_once,
        engine=engine,
        is_made_at_import=is_made_at_import(function),
    )


def routed(definition: Definition, routes: Routes) -> Definition:
    """Apply the rule for the task, which counts before what the task and the app declare."""
    route, plan = routes.route_of(definition.name), definition.plan
    if route is None:
        return definition
    changed = msgspec.structs.replace(
        plan,
        queue=plan.queue if route.queue is None else route.queue,
        priority=plan.priority if route.priority is None else route.priority,
        tenant=route.tenant,
        is_broadcast=route.broadcast,
    )
    return replace(definition, plan=changed, route=route, declared_queue=plan.queue)


def _given(value: Any, default: Any, check: Callable[[Any], Any]) -> Any:
    """Return the checked value, or the default if none was given."""
    return default if value is None else check(value)


def _check_once(at_most_once: Any, max_retries: int | None, default: int) -> int:
    """Return the number of retries; none for an at-most-once task."""
    if not _switch("at_most_once", at_most_once):
        return int(_given(max_retries, default, check_max_retries))
    if max_retries:
        raise InvalidTask(f"The task is to run at_most_once and has max_retries={max_retries}; leave one of them out.")
    return 0


def _switch(what: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidTask(f"{what} is {value!r}; use True or False.")
    return value


def elsewhere(name: str, defaults: Defaults) -> Definition:
    """Define a task whose code only workers have. They check its arguments."""
    plan = CallPlan(queue=defaults.queue, max_retries=defaults.max_retries)
    return Definition(name=check_name(name), function=_missing, signature=None, plan=plan, retry=defaults.retry)


def default_name(function: Callable[..., Any]) -> str:
    """Return module and qualified name. A script's `__main__` becomes the name it would be imported by. Raises InvalidTask."""
    if function.__name__ == "<lambda>":
        raise InvalidTask("A lambda has no name to travel by; write a def, or name it: app.task(name=…)(lambda: …).")
    module = function.__module__
    if module in SCRIPT:
        script = inspect.unwrap(function).__globals__
        spec, file = script.get("__spec__"), script.get("__file__")
        module = spec.name if spec is not None else Path(file).stem if file else module
    return f"{module}.{function.__qualname__}"


def same_function(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    """Whether two functions are the same, also after a reload made one again from the same code, or after a cell of a notebook
    was changed and run again."""
    if one is other:
        return True
    first, second = inspect.unwrap(one), inspect.unwrap(other)
    if first.__qualname__ == second.__qualname__ and all(map(_is_of_a_session, (first, second))):
        return True
    return first.__code__ == second.__code__ and all(map(_same_cell, first.__closure__ or (), second.__closure__ or ()))


def _is_of_a_session(function: Any) -> bool:
    """Whether it was written in an interpreter or a notebook: in a script that is no file."""
    script = function.__globals__
    return function.__module__ == "__main__" and script.get("__spec__") is None and script.get("__file__") is None


def _same_cell(one: CellType, other: CellType) -> bool:
    try:
        first, second = one.cell_contents, other.cell_contents
    except ValueError:  # empty: a function that names itself is not there yet when it is decorated
        return True
    return first is second or bool(first == second)


def _refuse_what_is_no_function(function: Any) -> None:
    if isinstance(function, str):
        raise InvalidTask(f"@app.task got the text {function!r}; write the name as @app.task(name={function!r}).")
    if not inspect.isfunction(inspect.unwrap(function) if callable(function) else function):
        what = "a partial" if isinstance(function, partial) else f"a {type(function).__name__}"
        raise InvalidTask(f"@app.task decorates a plain def or async def, not {what}; wrap it in a function.")
    names, parameters = inspect.unwrap(function).__qualname__.split("."), list(inspect.signature(function).parameters)
    if parameters[:1] in (["self"], ["cls"]) and len(names) > 1 and names[-2] != "<locals>":
        raise InvalidTask(
            f"Task {function.__qualname__} is a method, and its {parameters[0]} cannot travel; make it a plain function."
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidTask(f"Task {function.__qualname__} yields, and a task returns one value; return a list instead.")


def _check_aliases(aliases: Any) -> tuple[str, ...]:
    if isinstance(aliases, str):
        raise InvalidTask(f"aliases is a string; give a list: aliases=[{aliases!r}].")
    return tuple(check_name(alias) for alias in aliases or ())


def _fills(name: str, function: Callable[..., Any], engine: str | None, isolate: bool) -> Fills | None:
    """Return the test for parameters that the engine fills."""
    if engine is None:
        return None
    if inspect.iscoroutinefunction(inspect.unwrap(function)):
        raise InvalidTask(f"Task {name} is an async def, and the engine {engine!r} calls plain functions; use def.")
    if not isolate:
        raise InvalidTask(f"Task {name} is not isolated, and the engine {engine!r} needs that; leave isolate out.")
    from stem.contracts.engine import load  # here: few apps have such a task

    return load(engine).fills


def _above_zero(what: str, value: Any) -> float | None:
    return None if value is None else seconds(what, value, above_zero=True)


def _missing(**arguments: Any) -> None:
    raise InvalidTask(
        f"The code of this task is elsewhere; it was called here with {', '.join(arguments) or 'nothing'}."
    )
