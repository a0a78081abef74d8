"""Encode pushes as columns, and store them with one statement."""

from collections.abc import Callable, Sequence
from typing import Any

from stem.backends.postgres.codec.text_columns import cell, column, json_text, numbers, seconds, texts, utf8
from stem.backends.postgres.connection.errors import unstorable
from stem.backends.postgres.connection.pq_exec import Statement
from stem.backends.postgres.namespace import PostgresNamespace
from stem.backends.postgres.notify.notifier import PushNotice
from stem.backends.postgres.statements import call, numbered
from stem.core import envelope as envelopes
from stem.core.envelope import Envelope, Push, Receipt

Run = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


def push(run: Run, namespace: PostgresNamespace, pushes: Sequence[Push]) -> list[Receipt]:
    """Store the pushes through `run`, which executes a statement in a transaction of the caller's choice."""
    schema, ttl = namespace.schema, namespace.retention.results_seconds
    columns: list[Any] = [namespace.name, *_columns(pushes)]
    if any(each.unique is not None for each in pushes):
        columns += [*_unique_columns(pushes), ttl]
        rows = run(call("push_unique", len(columns), schema), columns)
        return [Receipt(answer, created=created) for answer, created in rows]
    columns.append(ttl)
    made = run(call("push", len(columns), schema), columns)[0][0]
    if made is None:
        return [Receipt(each.envelope.id, created=True) for each in pushes]
    return _receipts(pushes, set(made))


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


def _receipts(pushes: Sequence[Push], made: set[str]) -> list[Receipt]:
    """An id that stands twice in the batch was created by its first push."""
    receipts = []
    for each in pushes:
        task_id = each.envelope.id
        receipts.append(Receipt(task_id, created=task_id in made))
        made.discard(task_id)
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


def _unique_columns(pushes: Sequence[Push]) -> list[str]:
    held = [each.unique for each in pushes]
    return [
        texts([unique.key if unique else None for unique in held]),
        numbers([unique.seconds if unique else None for unique in held]),
    ]
