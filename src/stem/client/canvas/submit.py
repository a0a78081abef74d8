"""Submits a canvas: builds its tasks and stores all of them or none."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stem.client.canvas.builder import Builder, Scope, Source
from stem.client.canvas.handle import CanvasHandle
from stem.client.canvas.push_batch import PushBatch
from stem.client.run.context import CANVAS_ID, CHAIN_ID, JOIN_ID, running
from stem.client.store_connection import StoreConnection
from stem.core.envelope import Push, Receipt
from stem.core.errors import UsageError
from stem.core.prerequisites import OnFailure

if TYPE_CHECKING:
    from stem.client.canvas.canvas import Canvas
    from stem.client.run.context import TaskContext

PushAll = Callable[[Sequence[Push]], list[Receipt]]


def submit(
    canvas: "Canvas[Any]",
    store_connection: StoreConnection,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    connection: object | None = None,
    push: PushAll | None = None,
) -> CanvasHandle[Any]:
    connection = canvas.options.get("connection") if connection is None else connection
    push = None if store_connection.is_in_transaction else push
    joins = connection is not None or store_connection.is_in_transaction
    batch = PushBatch(store_connection, can_stage=not joins and push is None)
    try:
        canvas_id = _built(canvas, store_connection, batch, args, kwargs)
        batch.store(connection, push)
    except BaseException:
        batch.discard()
        raise
    return CanvasHandle(store_connection, canvas_id, canvas.decode)


async def asubmit(
    canvas: "Canvas[Any]",
    store_connection: StoreConnection,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    connection: object | None = None,
) -> CanvasHandle[Any]:
    import asyncio

    connection = canvas.options.get("connection") if connection is None else connection
    batch = PushBatch(store_connection, can_stage=connection is None)
    try:
        canvas_id = await asyncio.to_thread(_built, canvas, store_connection, batch, args, kwargs)
        await batch.astore(connection)
    except BaseException:
        batch.discard()
        raise
    return CanvasHandle(store_connection, canvas_id, canvas.decode)


def replacement(
    canvas: "Canvas[Any]", store_connection: StoreConnection, context: "TaskContext"
) -> tuple[list[Push], str]:
    """Build what takes the place of a running task: it keeps the task's place in chain, group and canvas."""
    if canvas.is_empty:
        raise UsageError(f"Task {context.id} cannot be replaced by an empty {canvas.kind}; return a value instead.")
    batch = PushBatch(store_connection, can_stage=False)
    builder = _builder_within(store_connection, batch, context)
    end_id: str = builder.run(canvas.build(builder, Source(parent=context.id), _scope_of(context), None))
    return batch.pushes, end_id


def spawned_members(
    canvas: "Canvas[Any]", store_connection: StoreConnection, context: "TaskContext", join_id: str
) -> tuple[list[Push], list[str]]:
    """Build further members of the group that a running task is part of; returns the ids of the tasks that end them."""
    batch, ends = PushBatch(store_connection, can_stage=False), list[str]()
    builder = _builder_within(store_connection, batch, context, ids_from=len(context.follow_ups))
    if not canvas.is_empty:
        builder.run(canvas.build_members(builder, Source(parent=context.id), _scope_of(context), ends, ()))
    members = set(ends)
    pushes = [
        msgspec.structs.replace(push, into=join_id) if push.envelope.id in members else push for push in batch.pushes
    ]
    return pushes, ends


def _built(
    canvas: "Canvas[Any]",
    store_connection: StoreConnection,
    batch: PushBatch,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> str:
    """Build the canvas into the batch; returns its id."""
    context = running.get() if canvas.options.get("add_to_parent") is not False else None
    own_id = canvas.options.get("id") if canvas.kind != "task" else None
    builder = Builder(
        store_connection,
        batch.add,
        canvas_id=own_id,
        is_repeatable=own_id is not None,
        root_id=None if context is None else context.root_id,
        headers=canvas.options.get("headers"),
    )
    parent = None if context is None else context.id
    source, scope = Source(args=args, kwargs=dict(kwargs), parent=parent), Scope(is_root=True)
    if canvas.is_empty:
        value: list[str] | None = (
            [] if canvas.kind == "group" or any(part.kind == "group" for part in canvas.parts()) else None
        )
        builder.note(canvas.kind, scope)
        builder.join(value, (), source, scope, builder.canvas_id, OnFailure.CANCEL)
        builder.run(canvas.attach(builder, builder.canvas_id, scope, with_errors=False))
    else:
        end_id = builder.run(canvas.build(builder, source, scope, None))
        if end_id != builder.canvas_id:
            builder.join(end_id, (end_id,), Source(parent=end_id), Scope(), builder.canvas_id, OnFailure.CANCEL)
    builder.finish(canvas.name)
    return builder.canvas_id


def _builder_within(
    store_connection: StoreConnection, batch: PushBatch, context: "TaskContext", *, ids_from: int | None = None
) -> Builder:
    return Builder(
        store_connection,
        batch.add,
        canvas_id=context.meta.get(CANVAS_ID) or context.id,
        root_id=context.root_id,
        headers={} if context.tenant is None else {"tenant": context.tenant},
        ids_from=ids_from,
    )


def _scope_of(context: "TaskContext") -> Scope:
    meta = context.meta
    headers = {name: text for name, text in context.headers.items() if not name.startswith("stem-")}
    options = {"headers": headers} if headers else {}
    return Scope(options=options, chain_id=meta.get(CHAIN_ID), join_id=meta.get(JOIN_ID))
