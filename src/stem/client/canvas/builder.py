"""Turns a canvas into the pushes of its tasks and joins."""

import os
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from stem.client.canvas.values import OUTER_CHAIN_ID
from stem.client.reachable import check_reachable
from stem.client.run.context import CANVAS_ID, CHAIN_ID, JOIN_ID, PARENT_ID, ROOT_ID
from stem.client.send.compose import Dependencies, compose, envelope_template, signed
from stem.client.store_connection import StoreConnection
from stem.client.task.options import CallPlan
from stem.core.decisions.routing import TENANT_HEADER
from stem.core.envelope import VERSION, Envelope, Push, check_id
from stem.core.errors import InvalidTask
from stem.core.ids import uuid7
from stem.core.prerequisites import CANVAS, JOIN, OnFailure
from stem.core.record import moment

if TYPE_CHECKING:
    from stem.client.canvas.signature import Signature
    from stem.client.task.definition import Definition

Building = Generator[Any, Any, Any]  # yields the buildings of parts, and gets the id of the task that ends each

TIMING = ("delay", "not_before")  # options of a whole that only its first tasks take
OF_WHOLE = ("id", "connection")  # options that no part takes over


class Source(msgspec.Struct, frozen=True):
    """What comes before a part of a canvas."""

    value: str | None = None  # the task whose value it takes
    after: tuple[str, ...] = ()
    inputs: dict[str, str] = {}  # parameters that take the values of named tasks
    on_failure: OnFailure = OnFailure.CANCEL
    args: tuple[Any, ...] = ()  # given at the submit, for the first tasks
    kwargs: dict[str, Any] = {}
    timing: dict[str, Any] = {}
    parent: str | None = None


def following(task_id: str, on_failure: OnFailure = OnFailure.CANCEL) -> Source:
    return Source(value=task_id, after=(task_id,), on_failure=on_failure, parent=task_id)


class Scope(msgspec.Struct, frozen=True):
    """Where in a canvas a part is."""

    options: dict[str, Any] = {}  # of the wholes that it is part of
    chain_id: str | None = None
    outer_chain_id: str | None = None
    is_link: bool = False  # of a chain that has begun
    is_followed: bool = False
    is_root: bool = False  # its end is the end of the canvas
    join_id: str | None = None  # of the group that it is a member of
    is_aside: bool = False  # a link or an error callback: no part of the result
    depth: int = 0

    def inside(self, **changes: Any) -> "Scope":
        return msgspec.structs.replace(self, depth=self.depth + 1, **changes)

    def aside(self) -> "Scope":
        return Scope(options=self.options, is_aside=True, depth=self.depth + 1)

    def member_of(self, join_id: str) -> "Scope":
        return self.inside(join_id=join_id, is_link=False, is_followed=False, is_root=False)


class Builder:
    """Builds one canvas. `add` gets each push, prerequisites first."""

    def __init__(
        self,
        store_connection: StoreConnection,
        add: Callable[[Push], None],
        *,
        canvas_id: str | None = None,
        is_repeatable: bool = False,
        root_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        ids_from: int | None = None,
    ) -> None:
        self._store_connection = store_connection
        self._add = add
        self._now = store_connection.clock()
        # Under an id that the caller has chosen all ids are the same each time, so that a submit can be repeated.
        self._prefix = check_id(f"{canvas_id}.0000000")[:-7] if is_repeatable else None
        self._ids_from = ids_from  # None: no need for ids in order
        self._count = 0
        self.canvas_id = canvas_id or self.new_id()
        self.shape: list[dict[str, Any]] = []
        self._root_id = root_id or self.canvas_id
        self._headers = dict(headers or {})
        self._queue: str | None = None  # of the first task
        self._chosen_ids: set[str] = set()
        self._checked: set[str] = set()
        self._behind_root: list[Push] | None = None  # what may wait for the canvas itself

    def new_id(self) -> str:
        self._count += 1
        if self._prefix is not None:
            return f"{self._prefix}{self._count}"
        later = 0.0 if self._ids_from is None else (self._ids_from + self._count) / 1000
        return uuid7(self._now + later, os.urandom(10))

    def run(self, building: Building) -> Any:
        """Run the building of a part, and of what it yields, without recursion."""
        stack, value = [building], None
        while stack:
            try:
                part = stack[-1].send(value)
            except StopIteration as stop:
                stack.pop()
                value = stop.value
            else:
                stack.append(part)
                value = None
        return value

    def note(self, kind: str, scope: Scope, **facts: Any) -> dict[str, Any]:
        """Add an entry to the shape."""
        entry = {"kind": kind, "depth": scope.depth, **facts}
        if scope.is_aside:
            entry["aside"] = True
        self.shape.append(entry)
        return entry

    def task(self, signature: "Signature[Any]", source: Source, scope: Scope, task_id: str | None) -> str:
        """Add one task; returns its id. Raises InvalidTask."""
        sender = signature.sender
        definition = sender.definition
        if sender.store_connection is not self._store_connection:
            raise InvalidTask(f"Task {definition.name} is of another app than the canvas; compose tasks of one app.")
        self._check(definition)
        own = signature.call_options
        plan = sender.plan_of({**scope.options, **_timing(own, source), **own})
        task_id = self._chosen(plan.id) or task_id or self.new_id()
        arguments, inputs = signature.bound(source)
        _refuse_what_others_decide(definition.name, plan, inputs)
        dependencies = Dependencies(
            id=task_id,
            after=source.after,
            on_failure=source.on_failure if source.after else OnFailure.CANCEL,
            inputs=inputs,
            meta=self._meta(task_id, source, scope),
        )
        template = envelope_template(definition.name, plan, is_fair=self._store_connection.settings.fair_share)
        push = compose(self._store_connection, template, plan, arguments, definition.signature, dependencies)
        self._queue = self._queue or push.envelope.queue
        if not self._headers and (tenant := push.envelope.headers.get(TENANT_HEADER)):
            self._headers = {TENANT_HEADER: tenant}
        self._note_task(definition.name, task_id, scope)
        self._put(push)
        return task_id

    def join(
        self, value: Any, after: tuple[str, ...], source: Source, scope: Scope, join_id: str, on_failure: OnFailure
    ) -> None:
        """Add a join of these tasks. The join of the whole canvas is left to `finish`."""
        if join_id == self.canvas_id:
            self._root = value, after, source, scope, on_failure
            self._behind_root = []
            return
        self._put(self._join_push(JOIN, {"value": value}, after, source, scope, join_id, on_failure))

    def finish(self, name: str | None) -> None:
        """Add the join of the whole canvas, which describes its shape."""
        value, after, source, scope, on_failure = self._root
        arguments: dict[str, Any] = {"value": value, "shape": self.shape}
        if name is not None:
            arguments["name"] = name
        self._add(self._join_push(CANVAS, arguments, after, source, scope, self.canvas_id, on_failure))
        for push in self._behind_root or ():
            self._add(push)

    def _put(self, push: Push) -> None:
        if self._behind_root is None:
            self._add(push)
        else:
            self._behind_root.append(push)

    def _join_push(
        self,
        name: str,
        arguments: dict[str, Any],
        after: tuple[str, ...],
        source: Source,
        scope: Scope,
        join_id: str,
        on_failure: OnFailure,
    ) -> Push:
        envelope = Envelope(
            id=join_id,
            name=name,
            args=msgspec.Raw(msgspec.json.encode(arguments)),
            headers=self._headers,
            enqueued_at=moment(self._now),
            not_before=None,
            priority=5,
            attempt=0,
            max_retries=0,
            visibility_timeout=None,
            queue=self._queue or "default",
            meta=self._meta(join_id, source, scope),
            version=VERSION,
            after=after,
            on_failure=on_failure,
        )
        return Push(signed(self._store_connection, envelope))

    def _meta(self, task_id: str, source: Source, scope: Scope) -> dict[str, Any]:
        """Say where in the canvas a task is."""
        meta = {CANVAS_ID: self.canvas_id, ROOT_ID: self._root_id}
        if source.parent is not None:
            meta[PARENT_ID] = source.parent
        if scope.chain_id is not None:
            meta[CHAIN_ID] = scope.chain_id
            if task_id == scope.chain_id and scope.outer_chain_id is not None:
                meta[OUTER_CHAIN_ID] = scope.outer_chain_id
        if scope.join_id is not None:
            meta[JOIN_ID] = scope.join_id
        return meta

    def _note_task(self, name: str, task_id: str, scope: Scope) -> None:
        """Add a task to the shape; members of one name that follow each other share an entry."""
        last = self.shape[-1] if self.shape else {}
        if last.get("name") == name and last["depth"] == scope.depth and "ids" in last and not scope.is_aside:
            last["ids"].append(task_id)
        else:
            self.note("task", scope, name=name, ids=[task_id])

    def _chosen(self, task_id: str | None) -> str | None:
        if task_id is not None:
            if task_id in self._chosen_ids:
                raise InvalidTask(f"Two tasks of the canvas have the id {task_id}; give each its own.")
            self._chosen_ids.add(task_id)
        return task_id

    def _check(self, definition: "Definition") -> None:
        if definition.name not in self._checked:
            check_reachable(self._store_connection, definition)
            self._checked.add(definition.name)


def _timing(own: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """When a first task of a whole starts, unless it says so itself."""
    return {} if any(own.get(name) is not None for name in TIMING) else source.timing


def _refuse_what_others_decide(name: str, plan: CallPlan, inputs: Mapping[str, str]) -> None:
    """A canvas waits for tasks of its own: refuse calls for which others may stand or that become several. Raises InvalidTask."""
    if plan.unique != "":
        raise InvalidTask(
            f"Task {name} is unique, and a canvas waits for tasks of its own; make it task.s(…).set(unique=False)."
        )
    if plan.supersedes is not None:
        raise InvalidTask(
            f"A later call may cancel task {name}, and a canvas waits for its own; enqueue it from a task."
        )
    if plan.is_broadcast:
        raise InvalidTask(
            f"Task {name} is broadcast to all workers, and a canvas waits for one task; enqueue it alone."
        )
    if plan.is_singleton and inputs and (plan.key is None or inputs.keys() & set(plan.key)):
        raise InvalidTask(
            f"Task {name} is a singleton by an argument that another task gives when it starts; give it a key without "
            f"{min(inputs)!r}."
        )
