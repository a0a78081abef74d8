"""Turns signatures into Stem's calls and canvases, sends them, and makes the results that stand for them."""

import re
from typing import Any

from stem.client.canvas.canvas import Canvas, Chain
from stem.client.canvas.group import Chord, Group
from stem.client.canvas.signature import Signature
from stem.compat.celery import canvas
from stem.compat.celery.app.bridged import BridgedStem, route_items
from stem.compat.celery.app.options import call_options
from stem.compat.celery.codec import wire_call
from stem.compat.celery.current import running
from stem.compat.celery.result import AsyncResult, GroupResult
from stem.compat.celery.utils import uuid

_OF_PARTS = ("link", "link_error", "task_id")


def frozen(app: Any, sig: Any) -> tuple[Any, Any]:
    """The signature with an id for each of its tasks, and the result that it will have."""
    sig = canvas.as_signature(sig)
    match sig.subtask_type:
        case "chain":
            return _frozen_chain(app, sig)
        case "group":
            return _frozen_group(app, sig)
        case "chord":
            return _frozen_chord(app, sig)
        case "chunks":
            return _frozen_group(app, sig.group().set(**sig.options))
        case _:
            task_id = sig.options.get("task_id") or uuid()
            made = sig.clone(task_id=task_id)
            return made, AsyncResult(task_id, app=app, task_name=sig["task"])


def send(app: Any, stem: BridgedStem, sig: Any) -> Any:
    """Send a signature or canvas, and return its result. Raises NotBridged, InvalidTask."""
    made, result = frozen(app, sig)
    one = canvas_of(app, stem, made)
    context = _context_within(stem)
    if isinstance(one, Signature) and not one.links and not one.errors:
        sender = one.sender.options(**one.options)
        if context is not None:
            context.enqueue(sender, **one.kwargs)
        else:
            sender.enqueue(**one.kwargs)
    elif context is not None and not one.is_empty:
        context.enqueue(one)
    else:
        stem.submit(one)
    return result


def _context_within(stem: BridgedStem) -> Any:
    """The context of a task of the app that runs here: it sends over the worker's connection."""
    found = running()
    context = None if found is None else found.request.context
    return context if context is not None and context.store_connection is stem.store_connection else None


def canvas_of(app: Any, stem: BridgedStem, sig: Any, *, is_whole: bool = True) -> Canvas[Any]:
    """Stem's canvas of a frozen signature."""
    sig = canvas.as_signature(sig)
    match sig.subtask_type:
        case "chain":
            one: Canvas[Any] = Chain([canvas_of(app, stem, step, is_whole=False) for step in sig.tasks])
        case "group":
            one = Group([canvas_of(app, stem, member, is_whole=False) for member in sig.tasks])
        case "chord":
            members = [canvas_of(app, stem, member, is_whole=False) for member in sig.tasks]
            one = Chord(Group(members), canvas_of(app, stem, sig.body, is_whole=False))
        case "chunks":
            return canvas_of(app, stem, sig.group().set(**sig.options), is_whole=is_whole)
        case _:
            return _call(app, stem, sig)
    options = {name: value for name, value in sig.options.items() if name not in _OF_PARTS}
    if sig.subtask_type == "group" and is_whole and sig.options.get("task_id"):
        options["task_id"] = sig.options["task_id"]
    return _with_callbacks(app, stem, sig, one.set(**call_options(app.conf, options)) if options else one)


def _call(app: Any, stem: BridgedStem, sig: Any) -> Canvas[Any]:
    """One call."""
    task = app.find_task(sig["task"])
    options = {**_route(app, sig), **({"queue": task.queue} if task is not None and task.queue is not None else {})}
    if task is not None and task.expires is not None:
        options["expires"] = task.expires
    made = call_options(app.conf, {**options, **sig.options})
    one: Canvas[Any] = Signature(
        stem.any_sender(sig["task"]),
        kwargs=wire_call(sig.args, sig.kwargs),
        is_immutable=sig.immutable,
        options=made,
    )
    return _with_callbacks(app, stem, sig, one)


def _with_callbacks(app: Any, stem: BridgedStem, sig: Any, one: Canvas[Any]) -> Canvas[Any]:
    for callback in canvas.as_list(sig.options.get("link")):
        one = one.link(canvas_of(app, stem, callback, is_whole=False))
    for callback in canvas.as_list(sig.options.get("link_error")):
        one = one.link_error(_error_callback(app, stem, canvas.as_signature(callback)))
    return one


def _error_callback(app: Any, stem: BridgedStem, callback: Any) -> Canvas[Any]:
    """The callback, whose first task is told that it gets a failure."""
    if callback.subtask_type is None and not callback.immutable:
        callback = callback.clone(kwargs={"_errback": True})
    elif callback.subtask_type == "chain":
        first, *rest = map(canvas.as_signature, callback.tasks)
        first = first if first.immutable or first.subtask_type else first.clone(kwargs={"_errback": True})
        callback = canvas.chain(first, *rest, app=app)
    return canvas_of(app, stem, callback, is_whole=False)


def _route(app: Any, sig: Any) -> dict[str, Any]:
    """What functions and regular expressions of task_routes say; names and patterns are routes of Stem's."""
    for pattern, route in route_items(app.conf):
        if callable(pattern):
            route = pattern(sig["task"], sig.args, sig.kwargs, sig.options, task=app.find_task(sig["task"]))
        elif not isinstance(pattern, re.Pattern) or not pattern.match(sig["task"]):
            continue
        if route:
            return (
                {"queue": route}
                if isinstance(route, str)
                else {k: route[k] for k in ("queue", "priority") if k in route}
            )
    return {}


def _frozen_chain(app: Any, sig: Any) -> tuple[Any, Any]:
    steps, result = [], None
    last_id = sig.options.get("task_id")
    for number, step in enumerate(sig.tasks, 1):
        one = canvas.as_signature(step)
        if last_id and number == len(sig.tasks) and one.subtask_type is None:
            one = one.clone(task_id=last_id)
        made, found = frozen(app, one)
        outermost = found
        while outermost.parent is not None:  # of a chord: the group before its callback
            outermost = outermost.parent
        outermost.parent, result = result, found
        steps.append(made)
    made = sig.clone()
    made["kwargs"] = {"tasks": steps}
    return made, result


def _frozen_group(app: Any, sig: Any) -> tuple[Any, Any]:
    pairs = [frozen(app, member) for member in sig.tasks]
    group_id = sig.options.get("task_id") or uuid()
    made = sig.clone(task_id=group_id)
    made["kwargs"] = {"tasks": [member for member, _ in pairs]}
    return made, GroupResult(group_id, [result for _, result in pairs], app=app)


def _frozen_chord(app: Any, sig: Any) -> tuple[Any, Any]:
    if sig.body is None:
        raise TypeError("A chord needs a callback: chord(header)(callback), or chord(header, callback).")
    pairs = [frozen(app, member) for member in sig.tasks]
    body = canvas.as_signature(sig.body)
    if (task_id := sig.options.get("task_id")) and body.subtask_type is None:
        body = body.clone(task_id=task_id)
    body, result = frozen(app, body)
    made = sig.clone()
    made["kwargs"] = {"header": [member for member, _ in pairs], "body": body}
    result.parent = GroupResult(uuid(), [each for _, each in pairs], app=app)
    return made, result
