"""Translates names of other task queues into Stem's."""

from collections.abc import Iterable, Mapping

# Names of options elsewhere, and what says the same here.
_OPTIONS = {
    "countdown": "delay",
    "eta": "not_before",
    "task_id": "id",
    "expire": "expires",
    "time_limit": "hard_limit",
    "timeout": "hard_limit",
    "soft_time_limit": "soft_limit",
    "autoretry_for": "retry_on",
    "dont_autoretry_for": "no_retry_on",
    "retries": "max_retries",
    "default_retry_delay": "retry",
    "retry_backoff": "retry",
    "retry_delay": "retry",
    "queue_name": "queue",
    "bind": "a parameter that is annotated TaskContext",
}

OF_TASKS = {
    "delay": "task.enqueue(…)",
    "apply_async": "task.options(…).enqueue(…)",
    "send_with_options": "task.options(…).enqueue(…)",
    "schedule": "task.options(delay=…).enqueue(…)",
    "apply": "a plain call, task(…), which runs it here",
    "signature": "task.s(…)",
    "subtask": "task.s(…)",
    "request": "a parameter that is annotated TaskContext, or current_task()",
    "retry": "ctx.retry(…), with a parameter ctx that is annotated TaskContext",
}
OF_APPS = {
    "send_task": "app.enqueue(name, args={…})",
    "autodiscover_tasks": "app.autodiscover([…])",
    "conf": "the arguments of Stem(…), STEM_* variables or stem.yaml",
    "actor": "@app.task",
    "AsyncResult": "app.handle(id)",
    "revoke": "app.control.revoke(id)",
    "worker_main": "Worker(app).run()",
    "run": "Worker(app).run()",
    "start": "Worker(app).run()",
}
OF_CANVASES = {
    "get": "canvas.submit().get()",
    "wait": "canvas.submit().wait()",
    "status": "canvas.submit().status()",
    "delay": "canvas.submit(…)",
    "apply_async": "canvas.set(…).submit(…)",
    "on_error": "canvas.link_error(…)",
}

OF_HANDLES = {
    "result": "handle.get()",
    "state": "handle.status().state",
    "ready": "handle.status().is_terminal",
    "successful": "handle.status().state",
    "failed": "handle.status().state",
    "join": "handle.wait()",
    "task_id": "handle.id",
    "cancel": "handle.revoke()",
    "abort": "handle.revoke(terminate=True)",
}


def missing(owner: object, name: str, hints: Mapping[str, str]) -> AttributeError:
    """Build the AttributeError for a missing name, with a hint."""
    hint = f"; use {hints[name]}" if name in hints else ""
    return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=owner)


def option_meant(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown option."""
    from difflib import get_close_matches

    if name in _OPTIONS:
        return f"; use {_OPTIONS[name]}."
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else f"; the options are {', '.join(known)}."


def call_option(name: str, known: Iterable[str]) -> str | None:
    """Return the call option that was passed as an argument of the task, if it is one."""
    meant = _OPTIONS.get(name, name)
    return meant if meant in known else None
