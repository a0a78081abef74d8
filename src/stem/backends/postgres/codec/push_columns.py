"""Encode pushes as columns, and store them with one statement."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from stem.backends.postgres.codec.text_columns import cell, column, json_text, numbers, seconds, texts, utf8
from stem.backends.postgres.connection.errors import unstorable
from stem.backends.postgres.connection.pq_exec import Statement
from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.postgres.notify.notifier import Notification, PushNotice, notification
from stem.backends.postgres.statements import call, numbered
from stem.core import envelope as envelopes
from stem.core.envelope import Envelope, Push, Receipt
from stem.core.errors import StoreRefused

Run = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


class Pushed(NamedTuple):
    """The receipts of a push, and what others wait for that has changed with it."""

    receipts: list[Receipt]
    change: Notification


def push(run: Run, namespace: PostgresNamespace, pushes: Sequence[Push]) -> Pushed:
    """Store the pushes through `run`, which executes a statement in a transaction of the caller's choice. Raises
    StoreRefused, for the caller to roll back."""
    if any(each.unique is not None for each in pushes):
        return _push_keyed(run, namespace, pushes)
    if any(is_composed(each) for each in pushes):
        return _push_blocked(run, namespace, pushes)
    return push_plain(run, namespace, pushes)


def push_plain(run: Run, namespace: PostgresNamespace, pushes: Sequence[Push]) -> Pushed:
    """Whatever they wait for, and without unique keys."""
    columns = [namespace.name, *_columns(pushes), namespace.retention.results_seconds]
    made = run(call("push", len(columns), namespace.schema), columns)[0][0]
    return _pushed(pushes, _receipts(pushes, made))


def is_composed(push: Push) -> bool:
    """Whether it waits for others, is a join, or is added to one."""
    return bool(push.envelope.after) or push.into is not None or push.envelope.is_join


def push_one(namespace: PostgresNamespace, push: Push, notice: PushNotice | None) -> Statement:
    """The statement that stores a push without a unique key and returns `t` if that created the task. With a notice it also
    notifies, and has to be flushed afterwards."""
    sent = push.envelope
    values = (
        namespace.name,
        *(cell(sent.id), cell(sent.name), cell(sent.queue)),
        str(sent.priority),
        None if push.delay_seconds is None else str(push.delay_seconds),
        None if sent.not_before is None else str(seconds(sent.not_before)),
        None if push.expires_seconds is None else str(push.expires_seconds),
        None if sent.expires_at is None else str(seconds(sent.expires_at)),
        None if sent.visibility_timeout is None else str(sent.visibility_timeout),
        json_text(sent.meta) if sent.meta else None,
        _body(sent),
        *(notice or (None, None, None)),
        str(namespace.retention.results_seconds),
    )
    return Statement(numbered("push_one", len(values), namespace.schema), values)


def _push_blocked(run: Run, namespace: PostgresNamespace, pushes: Sequence[Push]) -> Pushed:
    columns = [
        namespace.name,
        *_columns(pushes),
        *_composition_columns(pushes),
        namespace.retention.results_seconds,
    ]
    made, ended, released, refusal = run(call("push_blocked", len(columns), namespace.schema), columns)[0]
    if refusal is not None:
        raise StoreRefused(refusal)
    return _pushed(pushes, _receipts(pushes, made), ended or (), released or ())


def _push_keyed(run: Run, namespace: PostgresNamespace, pushes: Sequence[Push]) -> Pushed:
    columns = [
        namespace.name,
        *_columns(pushes),
        *_composition_columns(pushes),
        *_unique_columns(pushes),
        namespace.retention.results_seconds,
    ]
    rows = run(call("push_keyed", len(columns), namespace.schema), columns)
    for *_, refusal in rows:
        if refusal is not None:
            raise StoreRefused(refusal)
    receipts = [Receipt(row[0], created=row[1], superseded=row[2]) for row in rows if row[0] is not None]
    ended = [row[3] for row in rows if row[3] is not None]
    return _pushed(pushes, receipts, ended, [row[4] for row in rows if row[4] is not None])


def _pushed(
    pushes: Sequence[Push], receipts: list[Receipt], ended: Sequence[str] = (), queues: Sequence[str] = ()
) -> Pushed:
    if not any(receipt.created for receipt in receipts):
        return Pushed(receipts, notification(queues, ended=ended, logged=False))
    return Pushed(receipts, notification({*queues, *(each.envelope.queue for each in pushes)}, ended=ended))


def _receipts(pushes: Sequence[Push], made: Sequence[str] | None) -> list[Receipt]:
    """None: all were created. An id that stands twice in the batch was created by its first push."""
    if made is None:
        return [Receipt(each.envelope.id, created=True) for each in pushes]
    left, receipts = set(made), []
    for each in pushes:
        task_id = each.envelope.id
        receipts.append(Receipt(task_id, created=task_id in left))
        left.discard(task_id)
    return receipts


def _columns(pushes: Sequence[Push]) -> list[str]:
    sent = [each.envelope for each in pushes]
    return [
        column([e.id for e in sent]),
        column([e.name for e in sent]),
        column([e.queue for e in sent]),
        numbers([e.priority for e in sent]),
        numbers([each.delay_seconds for each in pushes]),
        numbers([seconds(e.not_before) for e in sent]),
        numbers([each.expires_seconds for each in pushes]),
        numbers([seconds(e.expires_at) for e in sent]),
        numbers([e.visibility_timeout for e in sent]),
        column([json_text(e.meta) if e.meta else None for e in sent]),
        column([_body(e) for e in sent]),
    ]


def _body(sent: Envelope) -> str:
    try:
        return utf8(envelopes.encode(sent))
    except UnicodeEncodeError as error:
        raise unstorable(error) from error


def _composition_columns(pushes: Sequence[Push]) -> list[str]:
    sent = [each.envelope for each in pushes]
    return [
        column([",".join(dict.fromkeys(e.after)) for e in sent]),
        column([e.on_failure if e.after or e.is_join else None for e in sent]),
        column([utf8(e.args) if e.is_join else None for e in sent]),
        column([each.into for each in pushes]),
    ]


def _unique_columns(pushes: Sequence[Push]) -> list[str]:
    held = [each.unique for each in pushes]
    return [
        texts([unique.key if unique else None for unique in held]),
        numbers([unique.seconds if unique else None for unique in held]),
        column([unique.supersedes if unique else None for unique in held]),
        numbers([unique.max_delay_seconds if unique else None for unique in held]),
    ]
