"""What a client of the project observes, one function per behaviour. Runs with Celery, and with the bridge."""

import json
import os
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from celery import chain, chord, chunks, group, signature
from celery.exceptions import TaskRevokedError, TimeoutError
from celery.result import AsyncResult, GroupResult

import tasks
from tasks import app

PATIENCE = 25
BEHAVIOURS = {}
ALONE = []  # those that change the app


def behaviour(function):
    BEHAVIOURS[function.__name__] = function
    return function


def alone(function):
    ALONE.append(function.__name__)
    return behaviour(function)


def value(sent):
    return sent.get(timeout=PATIENCE)


def raised(call):
    try:
        return ["returned", call()]
    except Exception as error:
        return ["raised", type(error).__name__, str(error)]


def until(condition):
    ends_at = time.monotonic() + PATIENCE
    while time.monotonic() < ends_at:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    return "never"


def noted(key, count=1):
    def read():
        with open(os.environ["LEDGER"]) as ledger:
            found = [line[1:] for line in map(json.loads, ledger) if line[0] == key]
        return found if len(found) >= count else None

    return until(read)


def key(name):
    return f"{name}-{uuid.uuid4().hex[:8]}"


# Calling


@behaviour
def delay_with_positional_arguments():
    return value(tasks.add.delay(2, 2))


@behaviour
def delay_with_keyword_arguments_and_defaults():
    return value(tasks.add.delay(x=5))


@behaviour
def apply_async_with_args_and_kwargs():
    return value(tasks.add.apply_async((2,), {"y": 3}))


@behaviour
def any_arguments():
    return value(tasks.echo.delay(1, "two", [3], four={"five": None}, six=6.5))


@behaviour
def types_of_arguments():
    arguments = (
        datetime(2030, 1, 31, 9, tzinfo=UTC),
        date(2030, 1, 31),
        Decimal("1.50"),
        uuid.UUID(int=7),
        b"raw",
        b"\xff",
        (1, 2),
        None,
        True,
        "text",
    )
    return value(tasks.kinds.delay(*arguments))


@behaviour
def types_of_results():
    return {
        what: repr(value(tasks.give.delay(what)))
        for what in ("datetime", "date", "decimal", "bytes", "tuple", "nested")
    }


@behaviour
def arguments_that_do_not_fit_are_refused_at_once():
    return raised(lambda: tasks.add.delay(1, 2, 3))[:2]


@behaviour
def arguments_that_json_cannot_carry():
    return raised(lambda: tasks.echo.delay(object()))[0]


@behaviour
def a_direct_call_runs_here():
    return [tasks.add(1, 2), tasks.shared(3), tasks.called(4)]


@behaviour
def a_countdown_is_kept():
    began_at = time.time()
    return value(tasks.clock.apply_async(countdown=1)) - began_at >= 0.99


@behaviour
def an_eta_is_kept():
    eta = datetime.now(UTC) + timedelta(seconds=1)
    return value(tasks.clock.apply_async(eta=eta)) >= eta.timestamp() - 0.01


@behaviour
def an_eta_that_has_passed_runs_at_once():
    return value(tasks.add.apply_async((1, 1), eta=datetime.now(UTC) - timedelta(hours=1)))


@behaviour
def an_expired_task_is_revoked():
    sent = tasks.add.apply_async((1, 1), expires=datetime.now(UTC) - timedelta(seconds=5))
    until(sent.ready)
    return [sent.state, raised(lambda: value(sent))[:2]]


@behaviour
def expires_that_has_not_passed():
    return value(tasks.add.apply_async((1, 1), expires=60))


@behaviour
def a_queue_of_the_call():
    return value(tasks.me.apply_async(queue="other"))["queue"]


@behaviour
def a_route_by_name():
    return value(tasks.routed.delay())


@behaviour
def a_route_by_pattern():
    return value(tasks.daily.delay())


@behaviour
def a_queue_of_the_call_counts_before_a_route():
    return value(tasks.routed.apply_async(queue="celery"))


@behaviour
def a_queue_of_the_task():
    return value(tasks.declared_queue.delay())


@behaviour
def the_default_queue():
    return value(tasks.me.delay())["queue"]


@behaviour
def a_priority_of_the_call():
    return value(tasks.me.apply_async(priority=3))["priority"]


@behaviour
def an_id_of_the_call():
    task_id = str(uuid.uuid4())
    sent = tasks.me.apply_async(task_id=task_id)
    return [sent.id == task_id, value(sent)["id"] == task_id]


@behaviour
def the_same_id_twice():
    task_id, name = str(uuid.uuid4()), key("twice")
    for _ in range(2):
        sent = tasks.keep.apply_async((name, 1), task_id=task_id)
        value(sent)
    time.sleep(0.5)
    return len(noted(name))


@behaviour
def headers_of_the_call():
    return value(tasks.me.apply_async(headers={"tenant": "acme", "depth": 3}))["headers"]


@behaviour
def a_header_is_an_attribute_of_the_request():
    return value(tasks.shout.apply_async(headers={"shout": "quiet"}))


@behaviour
def send_task_by_name():
    return value(app.send_task("tasks.add", args=[3, 4]))


@behaviour
def send_task_with_keywords():
    return value(app.send_task("tasks.add", kwargs={"x": 3, "y": 4}, queue="other"))


@behaviour
def options_of_the_task():
    return value(tasks.with_options.delay())


# Inside a task


@behaviour
def the_request():
    sent = tasks.me.delay(1, two=2)
    seen = value(sent)
    same = seen.pop("id") == sent.id
    del seen["priority"]
    return [same, seen]


@behaviour
def the_request_of_a_child():
    mine, child = value(tasks.parent.delay())
    seen = value(AsyncResult(child, app=app))
    return [seen["parent"] == mine, seen["root"]]


@behaviour
def current_task_and_app():
    return value(tasks.who.delay())


@behaviour
def shared_tasks():
    return [value(tasks.shared.delay(1)), value(tasks.shared_bound.delay(2))]


@behaviour
def a_class_that_overrides_call():
    return value(tasks.called.delay(5))


@behaviour
def a_class_based_task():
    return value(app.tasks["tasks.class_based"].delay(4))


@behaviour
def names_of_tasks():
    return [tasks.add.name, tasks.daily.name, tasks.shared.name, "tasks.add" in app.tasks]


@behaviour
def waiting_for_a_task_within_a_task():
    return value(tasks.waits_for_another.delay())


@behaviour
def sending_within_a_task():
    return value(AsyncResult(value(tasks.sends.delay(4)), app=app))


@behaviour
def a_canvas_within_a_task():
    return value(AsyncResult(value(tasks.builds.delay(4)), app=app))


@behaviour
def worker_process_init():
    return value(tasks.begun.delay())


# Results


@behaviour
def a_result_that_succeeded():
    sent = tasks.add.delay(2, 2)
    value(sent)
    again = AsyncResult(sent.id, app=app)
    return [again.state, again.status, again.result, again.info, again.ready(), again.successful(), again.failed(),
            again.traceback, again == sent, str(again) == sent.id]  # fmt: skip


@behaviour
def a_result_that_failed():
    sent = tasks.divide.delay(1, 0)
    error = raised(lambda: value(sent))
    return [error, sent.state, sent.failed(), sent.successful(), sent.ready(), repr(sent.result),
            "ZeroDivisionError" in sent.traceback, "return x / y" in sent.traceback]  # fmt: skip


@behaviour
def an_exception_of_the_projects_own():
    sent = tasks.fail.delay("Broken", "all of it")
    try:
        value(sent)
    except tasks.Broken as error:
        return [type(error) is tasks.Broken, error.args]


@behaviour
def a_key_error():
    sent = tasks.fail.delay("KeyError", "name")
    return raised(lambda: value(sent))


@behaviour
def get_without_propagating():
    return repr(tasks.divide.delay(1, 0).get(timeout=PATIENCE, propagate=False))


@alone
def get_that_times_out():
    sent = tasks.nap.delay(2.5)
    try:
        sent.get(timeout=0.1)
    except TimeoutError:
        return ["TimeoutError", value(sent)]


@behaviour
def an_id_that_nobody_knows():
    unknown = AsyncResult(str(uuid.uuid4()), app=app)
    try:
        unknown.get(timeout=0.2)
    except TimeoutError:
        return [unknown.state, unknown.ready(), unknown.result, "TimeoutError"]


@behaviour
def an_ignored_result():
    return tasks.silent.delay().get(timeout=PATIENCE)


@behaviour
def the_state_while_it_runs():
    sent = tasks.nap.delay(1.5)
    seen = until(lambda: sent.state != "PENDING" and sent.state)
    return [seen, value(sent)]


@behaviour
def a_state_of_its_own():
    sent = tasks.progress.delay()
    found = until(lambda: sent.state == "PROGRESS" and sent.info)
    return [found, value(sent), sent.state]


@behaviour
def a_forgotten_result():
    sent = tasks.add.delay(1, 1)
    value(sent)
    sent.forget()
    return sent.state


@behaviour
def a_forgotten_result_asked_for_anew():
    sent = tasks.add.delay(1, 1)
    value(sent)
    sent.forget()
    return AsyncResult(sent.id, app=app).state


@behaviour
def details_of_a_result():
    sent = tasks.me.delay()
    value(sent)
    found = AsyncResult(sent.id, app=app)
    return [found.name, found.retries, found.date_done is not None, found.queue]


# Retries


@behaviour
def retry_until_it_works():
    name = key("flaky")
    return [value(tasks.flaky.delay(2, name)), noted(name, 3)]


@behaviour
def retries_run_out_with_the_exception():
    sent = tasks.flaky.delay(9)
    return [raised(lambda: value(sent)), sent.state]


@behaviour
def retries_run_out_without_an_exception():
    sent = tasks.gives_up.delay()
    error = raised(lambda: value(sent))
    return [error[:2], "Can't retry tasks.gives_up" in error[2]]


@behaviour
def retries_without_a_limit():
    return value(tasks.never_gives_up.delay(6))


@behaviour
def a_limit_given_to_retry():
    return value(tasks.override.delay())


@behaviour
def the_state_between_two_attempts():
    sent = tasks.retries_later.delay()
    found = until(lambda: sent.state == "RETRY" and repr(sent.result))
    return [found, value(sent), sent.state]


@behaviour
def autoretry_for():
    return [value(tasks.automatic.delay(2)), raised(lambda: value(tasks.automatic.delay(5)))]


@behaviour
def dont_autoretry_for():
    name = key("not-automatic")
    return [raised(lambda: value(tasks.not_automatic.delay(name)))[:2], len(noted(name))]


@behaviour
def retry_backoff():
    name = key("backoff")
    error = raised(lambda: value(tasks.backs_off.delay(name)))
    (first,), (second,) = noted(name, 2)
    return [error, 0.9 <= second - first < 8]


# Limits


@behaviour
def a_soft_time_limit_can_be_caught():
    return value(tasks.soft.delay(True))


@behaviour
def a_soft_time_limit_fails_the_task():
    sent = tasks.soft.delay(False)
    return [raised(lambda: value(sent))[:2], sent.state]


@behaviour
def a_hard_time_limit_fails_the_task():
    sent = tasks.hard.delay()
    return [raised(lambda: value(sent))[:2], sent.state]


@behaviour
def time_limits_of_the_call():
    sent = tasks.nap.apply_async((20,), time_limit=1)
    return [raised(lambda: value(sent))[:2], sent.state]


# Canvas


@behaviour
def a_chain():
    return value(chain(tasks.add.s(2, 2), tasks.add.s(4), tasks.add.s(8))())


@behaviour
def a_chain_by_pipes():
    sent = (tasks.add.s(2, 2) | tasks.add.s(4)).apply_async()
    return [value(sent), sent.parent.get(timeout=PATIENCE)]


@behaviour
def an_immutable_signature():
    return value((tasks.add.s(2, 2) | tasks.add.si(1, 1) | tasks.add.s(5))())


@behaviour
def a_partial_signature():
    return [value(tasks.add.s(2).delay(4)), value(tasks.add.s(y=2).apply_async((1,))), tasks.add.s(2)(3)]


@behaviour
def a_chain_that_fails():
    sent = chain(tasks.add.s(1, 1), tasks.divide.s(0), tasks.add.s(1))()
    error = raised(lambda: value(sent))
    return [
        error[:2],
        until(lambda: sent.state != "PENDING" and sent.state),
        sent.parent.state,
        sent.parent.parent.state,
    ]


@behaviour
def a_group():
    sent = group(tasks.add.s(i, i) for i in range(5))()
    return [value(sent), sent.successful(), sent.ready(), sent.failed(), sent.completed_count(), len(sent),
            [each.get(timeout=PATIENCE) for each in sent]]  # fmt: skip


@behaviour
def a_group_with_a_failure():
    sent = group(tasks.divide.s(1, 1), tasks.divide.s(1, 0), tasks.divide.s(4, 2))()
    error = raised(lambda: value(sent))
    until(sent.ready)
    return [error[:2], sent.failed(), sent.successful(), sent.completed_count(), [each.state for each in sent.results]]


@behaviour
def a_group_that_takes_arguments():
    return value(group(tasks.add.s(10), tasks.add.s(20)).apply_async((1,)))


@behaviour
def a_saved_group():
    sent = group(tasks.add.s(i, i) for i in range(3)).apply_async()
    sent.save()
    value(sent)
    found = GroupResult.restore(sent.id, app=app)
    return [value(found), found.id == sent.id]


@behaviour
def a_chord():
    return value(chord(tasks.add.s(i, i) for i in range(10))(tasks.total.s()))


@behaviour
def a_chord_with_a_body():
    return value(chord([tasks.add.s(1, 1), tasks.add.s(2, 2)], tasks.total.s()).apply_async())


@behaviour
def a_group_and_a_task_make_a_chord():
    return value((group(tasks.add.s(i, i) for i in range(3)) | tasks.total.s() | tasks.add.s(100))())


@behaviour
def a_chain_group_chain():
    flow = tasks.add.s(1, 1) | group(tasks.add.s(1), tasks.add.s(2)) | tasks.total.s()
    return value(flow())


@behaviour
def chains_in_a_group():
    return value(group(tasks.add.s(1, 1) | tasks.add.s(1), tasks.add.s(2, 2) | tasks.add.s(2))())


@behaviour
def a_chord_that_fails():
    sent = chord([tasks.add.s(1, 1), tasks.fail.s("Broken", "a member")])(tasks.total.s())
    error = raised(lambda: value(sent))
    return [error[:2], "a member" in error[2], until(lambda: sent.state != "PENDING" and sent.state)]


@behaviour
def chunks_of_work():
    return [
        value(tasks.add.chunks(zip(range(6), range(6), strict=True), 4)()),
        value(chunks(tasks.add.s(), [(1, 2), (3, 4)], 1)()),
    ]


@behaviour
def map_and_starmap():
    return [value(tasks.total.map([[1, 2], [3, 4]]).delay()), value(tasks.add.starmap([(1, 2), (3, 4)]).delay())]


@behaviour
def a_signature_by_name_and_from_json():
    one = signature("tasks.add", args=(2, 2), countdown=0)
    travelled = signature(json.loads(json.dumps(tasks.add.s(3, 3) | tasks.add.s(1))), app=app)
    return [value(one.apply_async()), value(travelled.apply_async())]


@behaviour
def options_of_a_signature():
    return value(tasks.me.s().set(queue="other").delay())["queue"]


@behaviour
def link():
    name = key("link")
    value(tasks.add.apply_async((2, 2), link=tasks.keep_value.s(name)))
    return noted(name)


@behaviour
def several_links():
    name = key("links")
    value(tasks.add.apply_async((2, 2), link=[tasks.keep_value.s(name), tasks.add.s(16) | tasks.keep_value.s(name)]))
    return sorted(noted(name, 2))


@behaviour
def an_error_callback_with_the_exception():
    name = key("errback")
    sent = tasks.fail.apply_async(("Broken", "told"), link_error=tasks.on_error.s(name))
    raised(lambda: value(sent))
    ((failed, *said),) = noted(name)
    return [failed == sent.id, said]


@behaviour
def an_error_callback_with_the_id():
    name = key("errback-id")
    sent = tasks.fail.apply_async(link_error=tasks.on_error_id.s(name))
    raised(lambda: value(sent))
    return noted(name) == [[sent.id]]


@behaviour
def an_error_callback_that_is_bound():
    name = key("errback-bound")
    sent = tasks.fail.apply_async(link_error=tasks.bound_on_error.s(name))
    raised(lambda: value(sent))
    return noted(name) == [[sent.id, True]]


@behaviour
def an_error_callback_of_a_chain():
    name = key("errback-chain")
    sent = chain(tasks.add.s(1, 1), tasks.divide.s(0), tasks.add.s(1)).apply_async(link_error=tasks.on_error_id.s(name))
    raised(lambda: value(sent))
    found = noted(name)
    time.sleep(0.5)
    return [found == [[sent.parent.id]], len(noted(name))]


@behaviour
def error_callbacks_of_a_group():
    name = key("errback-group")
    flow = group(tasks.fail.s(), tasks.fail.s(), tasks.add.s(1, 1))
    flow.link_error(tasks.on_error_id.s(name))
    sent = flow()
    until(sent.ready)
    noted(name, 2)
    time.sleep(0.5)
    return len(noted(name))


@behaviour
def error_callbacks_of_a_chord():
    name = key("errback-chord")
    body = tasks.total.s().on_error(tasks.on_error_id.s(name))
    sent = chord([tasks.fail.s(), tasks.fail.s(), tasks.add.s(1, 1)])(body)
    raised(lambda: value(sent))
    noted(name)
    time.sleep(0.5)
    return len(noted(name))


@behaviour
def a_task_that_replaces_itself():
    return [value(tasks.replaces.delay(1)), value((tasks.replaces.s(1) | tasks.add.s(1000))())]


@behaviour
def a_task_replaced_by_a_group():
    return value((tasks.replaces_with_group.s(3) | tasks.total.s())())


# Hooks and signals


@behaviour
def hooks_of_a_success():
    name = key("hooks")
    value(tasks.hooked.delay("work", key=name))
    return noted(name, 3)


@behaviour
def hooks_of_a_failure():
    name = key("hooks")
    raised(lambda: value(tasks.hooked.delay("fail", key=name)))
    return noted(name, 3)


@behaviour
def hooks_of_a_retry():
    name = key("hooks")
    value(tasks.hooked.delay("retry", key=name))
    return sorted(noted(name, 5))  # the second attempt may begin before the first has called its hooks


@behaviour
def signals_of_a_success():
    name = key("signals")
    value(tasks.hooked.delay("work", key=name))
    told = [line for line in noted(name, 5) if line[0] in ("prerun", "postrun")]
    return [told, noted("signals-success")[0]]


@behaviour
def signals_of_a_failure():
    name = key("signals")
    raised(lambda: value(tasks.hooked.delay("fail", key=name)))
    return [line for line in noted(name, 6) if line[0] in ("prerun", "postrun", "failure")]


@behaviour
def signals_of_a_retry():
    name = key("signals")
    value(tasks.hooked.delay("retry", key=name))
    return sorted(line for line in noted(name, 10) if line[0] in ("prerun", "postrun", "retry"))


@behaviour
def before_task_publish_changes_headers():
    return value(tasks.shout.delay())


@behaviour
def a_task_that_ignores_itself():
    sent = tasks.ignores.delay()
    time.sleep(1)
    return sent.state


@behaviour
def a_task_that_is_rejected():
    sent = tasks.rejects.delay()
    time.sleep(1)
    return sent.state


# Control


@behaviour
def a_revoked_task_does_not_run():
    name = key("revoked")
    sent = tasks.keep.apply_async((name,), countdown=2)
    sent.revoke()
    until(sent.ready)
    try:
        value(sent)
    except TaskRevokedError:
        return [sent.state, os.path.exists(os.environ["LEDGER"]) and name not in open(os.environ["LEDGER"]).read()]


@behaviour
def a_running_task_is_terminated():
    sent = tasks.nap.delay(20)
    until(lambda: sent.state == "STARTED")
    app.control.revoke(sent.id, terminate=True)
    until(sent.ready)
    return [sent.state, raised(lambda: value(sent))[:2]]


@behaviour
def ping():
    (answer,) = app.control.ping(timeout=3)
    ((_, said),) = answer.items()
    return said


@behaviour
def inspect_active():
    sent = tasks.nap.delay(2)
    until(lambda: sent.state == "STARTED")

    def found():
        active = app.control.inspect(timeout=3).active() or {}
        return [each["name"] for tasks in active.values() for each in tasks if each["id"] == sent.id]

    return until(found)


@behaviour
def inspect_registered():
    (names,) = app.control.inspect(timeout=3).registered().values()
    return ["tasks.add" in names, "tasks.shared" in names]


@behaviour
def inspect_queues():
    (queues,) = app.control.inspect(timeout=3).active_queues().values()
    return sorted(queue["name"] for queue in queues if not queue["name"].startswith("worker."))


@behaviour
def broadcast_ping():
    (answer,) = app.control.broadcast("ping", reply=True, timeout=3)
    return list(answer.values())


@behaviour
def a_task_that_kills_its_process():
    name = key("dies")
    sent = tasks.dies.delay(name)
    error = raised(lambda: value(sent))
    return [error[:2], len(noted(name))]


# Eager


@behaviour
def apply_runs_here():
    ran = tasks.add.apply((2, 2))
    failed = tasks.divide.apply((1, 0))
    return [ran.get(), ran.state, ran.successful(), failed.state, repr(failed.result), raised(failed.get)]


@behaviour
def apply_that_throws():
    return raised(lambda: tasks.divide.apply((1, 0), throw=True))


@behaviour
def apply_retries_without_waiting():
    return tasks.flaky.apply((2,)).get()


@behaviour
def apply_has_a_request():
    seen = tasks.me.apply(args=(1,)).get()
    return [seen["eager"], seen["called_directly"], seen["args"]]


@behaviour
def apply_a_chain():
    return (tasks.add.s(1, 1) | tasks.add.s(2)).apply().get()


@alone
def always_eager():
    app.conf.task_always_eager = True
    try:
        return [
            tasks.add.delay(2, 2).get(),
            chain(tasks.add.s(1, 1), tasks.add.s(1))().get(),
            group(tasks.add.s(i, i) for i in range(3))().get(),
            chord([tasks.add.s(1, 1), tasks.add.s(2, 2)])(tasks.total.s()).get(),
            tasks.divide.delay(1, 0).state,
        ]
    finally:
        app.conf.task_always_eager = False


@alone
def eager_propagates():
    app.conf.update(task_always_eager=True, task_eager_propagates=True)
    try:
        return raised(lambda: tasks.divide.delay(1, 0))
    finally:
        app.conf.update(task_always_eager=False, task_eager_propagates=False)


def observed(name):
    began_at = time.monotonic()
    try:
        seen = BEHAVIOURS[name]()
    except Exception as error:
        seen = ["error", type(error).__name__, str(error)]
    return {"seen": seen, "seconds": round(time.monotonic() - began_at, 2)}


if __name__ == "__main__":
    app.set_default()  # for all threads
    wanted = sys.argv[1:] or list(BEHAVIOURS)
    together = [name for name in wanted if name not in ALONE]
    with ThreadPoolExecutor(8) as threads:
        found = dict(zip(together, threads.map(observed, together), strict=True))
    found |= {name: observed(name) for name in wanted if name in ALONE}
    print(json.dumps(found, default=repr))
