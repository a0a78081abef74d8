"""Tasks of an ordinary Celery project. The bridge runs the same text with another package name in its import lines."""

import json
import os
import signal
import time

from celery import Celery, Task, chain, current_app, current_task, group, shared_task
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded
from celery.signals import (
    before_task_publish,
    task_failure,
    task_postrun,
    task_prerun,
    task_retry,
    task_success,
    worker_process_init,
)
from celery.utils.log import get_task_logger

app = Celery("tasks", broker=os.environ["BROKER"], backend=os.environ["BROKER"])
app.conf.update(
    broker_connection_retry_on_startup=True,
    result_extended=True,
    task_track_started=True,
    task_routes={"tasks.routed": {"queue": "other"}, "reports.*": "other"},
)
logger = get_task_logger(__name__)
started = []


def note(key, *facts):
    with open(os.environ["LEDGER"], "a") as ledger:
        ledger.write(json.dumps([key, *facts]) + "\n")


@app.task
def add(x, y=10):
    return x + y


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def echo(*args, **kwargs):
    logger.info("echo")
    return [list(args), kwargs]


@app.task
def kinds(*args):
    return [type(arg).__name__ for arg in args], repr(args)


@app.task
def give(what):
    from datetime import UTC, date, datetime
    from decimal import Decimal

    return {
        "datetime": datetime(2030, 1, 31, 9, tzinfo=UTC),
        "date": date(2030, 1, 31),
        "decimal": Decimal("1.50"),
        "bytes": b"raw",
        "tuple": (1, (2, 3)),
        "nested": {"a": [datetime(2030, 1, 1, tzinfo=UTC)]},
    }[what]


@app.task(bind=True)
def me(self, *args, **kwargs):
    request = self.request
    return {
        "args": request.args,
        "kwargs": request.kwargs,
        "called_directly": request.called_directly,
        "correlation": request.correlation_id == request.id,
        "eager": request.is_eager,
        "headers": request.headers,
        "hostname": isinstance(request.hostname, str) and bool(request.hostname),
        "id": request.id,
        "name": self.name,
        "parent": request.parent_id,
        "priority": request.delivery_info.get("priority"),
        "queue": request.delivery_info["routing_key"],
        "redelivered": bool(request.delivery_info.get("redelivered")),
        "retries": request.retries,
        "root": request.root_id == request.id,
        "task": request.task,
    }


@app.task(bind=True)
def shout(self):
    return self.request.shout


@app.task
def routed():
    return current_task.request.delivery_info["routing_key"]


@app.task(name="reports.daily")
def daily():
    return current_task.request.delivery_info["routing_key"]


@app.task(queue="other")
def declared_queue():
    return current_task.request.delivery_info["routing_key"]


class Broken(Exception):
    """An exception of the project's own."""


@app.task
def fail(kind="Broken", message="it broke"):
    raise {"Broken": Broken, "KeyError": KeyError, "ZeroDivisionError": ZeroDivisionError}[kind](message)


@app.task
def divide(x, y):
    return x / y


@app.task
def nap(seconds, value="rested"):
    time.sleep(seconds)
    return value


@app.task
def clock():
    return time.time()


@app.task(bind=True, max_retries=3, default_retry_delay=0)
def flaky(self, failures, key=None):
    if key:
        note(key, self.request.retries)
    if self.request.retries < failures:
        raise self.retry(exc=Broken(f"attempt {self.request.retries}"))
    return self.request.retries


@app.task(bind=True, max_retries=1)
def gives_up(self):
    raise self.retry(countdown=0)


@app.task(bind=True, max_retries=None)
def never_gives_up(self, failures):
    if self.request.retries < failures:
        raise self.retry(countdown=0)
    return self.request.retries


@app.task(bind=True, max_retries=0)
def override(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0, max_retries=2)
    return self.request.retries


@app.task(bind=True)
def retries_later(self):
    if self.request.retries == 0:
        raise self.retry(exc=Broken("later"), countdown=1.5)
    return "done"


@app.task(bind=True, autoretry_for=(Broken,), retry_kwargs={"max_retries": 2, "countdown": 0})
def automatic(self, failures):
    if self.request.retries < failures:
        raise Broken("again")
    return self.request.retries


@app.task(
    autoretry_for=(Exception,), dont_autoretry_for=(KeyError,), retry_backoff=True, retry_backoff_max=1, max_retries=1
)
def not_automatic(key):
    note(key)
    raise KeyError("no")


@app.task(bind=True, autoretry_for=(Broken,), retry_backoff=1, retry_backoff_max=1, retry_jitter=False, max_retries=1)
def backs_off(self, key):
    note(key, time.time())
    raise Broken("slow")


@app.task(ignore_result=True)
def silent():
    return 42


@app.task(soft_time_limit=1)
def soft(catch):
    try:
        time.sleep(20)
    except SoftTimeLimitExceeded:
        if catch:
            return "caught"
        raise


@app.task(time_limit=1)
def hard():
    time.sleep(20)


@app.task(bind=True)
def progress(self):
    self.update_state(state="PROGRESS", meta={"current": 3, "total": 10})
    time.sleep(2)
    return "done"


@app.task
def keep(key, *facts):
    note(key, *facts)
    return facts[0] if facts else None


@app.task
def keep_value(value, key):
    note(key, value)
    return value


@app.task
def on_error(request, exc, traceback, key):
    note(key, request.id, type(exc).__name__, str(exc))


@app.task
def on_error_id(task_id, key):
    note(key, task_id)


@app.task(bind=True)
def bound_on_error(self, task_id, key):
    note(key, task_id, self.request.id != task_id)


class Hooked(Task):
    """Notes what becomes of its tasks."""

    greeting = "hello"

    def before_start(self, task_id, args, kwargs):
        note(kwargs["key"], "before_start", args)

    def on_success(self, retval, task_id, args, kwargs):
        note(kwargs["key"], "on_success", retval, args)

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        note(kwargs["key"], "on_failure", repr(exc), args, type(exc).__name__ in str(einfo))

    def on_retry(self, exc, task_id, args, kwargs, einfo):
        note(kwargs["key"], "on_retry", repr(exc))

    def after_return(self, status, retval, task_id, args, kwargs, einfo):
        note(kwargs["key"], "after_return", status, repr(retval))


@app.task(base=Hooked, bind=True, max_retries=1, default_retry_delay=0)
def hooked(self, what, key):
    if what == "retry" and self.request.retries == 0:
        raise self.retry(exc=Broken("once"))
    if what == "fail":
        raise Broken("hooked")
    return self.greeting


class Calling(Task):
    def __call__(self, *args, **kwargs):
        return ["called", super().__call__(*args, **kwargs)]


@app.task(base=Calling)
def called(x):
    return x


class ClassBased(Task):
    name = "tasks.class_based"

    def run(self, x):
        return [self.name, x * 2]


app.register_task(ClassBased())


@shared_task
def shared(x):
    return [current_app.main, x]


@shared_task(bind=True, name="tasks.shared_bound")
def shared_bound(self, x):
    return [self.name, x]


@app.task
def who():
    return [current_task.name, current_app.main, bool(current_task.request.id)]


@app.task(bind=True)
def replaces(self, x):
    raise self.replace(add.s(x, 1) | add.s(100))


@app.task(bind=True)
def replaces_with_group(self, n):
    raise self.replace(group(add.s(i, i) for i in range(n)))


@app.task
def ignores():
    raise Ignore()


@app.task
def rejects():
    raise Reject("no", requeue=False)


@app.task
def waits_for_another():
    try:
        return add.delay(1, 1).get(timeout=1)
    except RuntimeError as error:
        return type(error).__name__


@app.task
def sends(x):
    return add.delay(x, x).id


@app.task(bind=True)
def parent(self):
    child = me.delay()
    return [self.request.id, child.id]


@app.task
def dies(key):
    note(key)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task
def builds(n):
    return chain(add.s(n, n), add.s(1)).apply_async().id


@app.task
def begun():
    return bool(started)


@app.task(rate_limit="100/s", acks_late=True, reject_on_worker_lost=True, serializer="json", priority=3)
def with_options():
    return "ran"


@worker_process_init.connect
def starting(**kwargs):
    started.append(os.getpid())


@before_task_publish.connect(sender="tasks.shout")
def add_header(headers=None, **kwargs):
    headers["shout"] = "loud"


def watched(sender, kwargs):
    return sender.name == "tasks.hooked" and kwargs.get("key", "").startswith("signals")


@task_prerun.connect
def prerun(sender=None, task_id=None, task=None, args=None, kwargs=None, **_):
    if watched(sender, kwargs):
        note(kwargs["key"], "prerun", args, task.name)


@task_postrun.connect
def postrun(sender=None, args=None, kwargs=None, retval=None, state=None, **_):
    if watched(sender, kwargs):
        note(kwargs["key"], "postrun", state)


@task_success.connect(sender=hooked)
def success(sender=None, result=None, **_):
    note("signals-success", "success", result)


@task_failure.connect
def failure(sender=None, exception=None, kwargs=None, einfo=None, **_):
    if watched(sender, kwargs):
        note(kwargs["key"], "failure", repr(exception), bool(str(einfo)))


@task_retry.connect
def retry(sender=None, request=None, reason=None, **_):
    if watched(sender, request.kwargs):
        note(request.kwargs["key"], "retry", type(reason).__name__, request.retries)
