"""Workflows: any acyclic graph of tasks."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

import msgspec

from stem.client.canvas.builder import Builder, Building, Scope, Source
from stem.client.canvas.canvas import Canvas, checked, of_all
from stem.core.errors import InvalidTask
from stem.core.prerequisites import OnFailure


class WorkflowNode(msgspec.Struct, frozen=True, eq=False):
    """A part of a workflow: a canvas, the nodes it waits for, and the parameters that take their values."""

    name: str
    canvas: Canvas[Any]
    after: tuple[str, ...]
    inputs: dict[str, str]  # parameter: node

    @property
    def all_before(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.after, *self.inputs.values())))


class Workflow(Canvas[dict[str, Any]]):
    """A graph of named nodes. Its value has the values of the nodes that no other waits for, by their names."""

    kind = "workflow"

    def __init__(self, name: str, nodes: Mapping[str, WorkflowNode] | None = None, **of_all: Any) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidTask(f'A workflow has a name, and this is {name!r}; write workflow("orders").')
        self.nodes = dict(nodes or {})
        vars(self).update(of_all)
        self.name = name

    @property
    def is_empty(self) -> bool:  # type: ignore[override]
        return not self.nodes

    def add(
        self,
        name: str,
        canvas: Canvas[Any],
        *,
        after: Iterable[WorkflowNode | str] = (),
        inputs: Mapping[str, WorkflowNode | str] | None = None,
    ) -> WorkflowNode:
        """Add a node that starts when the nodes in `after` and `inputs` have ended. Each of `inputs` fills a parameter of its
        first tasks with a node's value. Raises InvalidTask."""
        if not isinstance(name, str) or not name or name in self.nodes:
            raise InvalidTask(f"A node of workflow {self.name} is named {name!r}; give each a name of its own.")
        if isinstance(after, str | WorkflowNode):
            raise InvalidTask(f"after of node {name} is one node; give a list: after=[…].")
        if not isinstance(inputs or {}, Mapping):
            raise InvalidTask(f"inputs of node {name} is no mapping; give parameters and nodes: inputs={{'x': node}}.")
        taken = {parameter: _name_of(node) for parameter, node in (inputs or {}).items()}
        node = WorkflowNode(name, checked(canvas), tuple(map(_name_of, after)), taken)
        self.nodes[name] = node
        return node

    def parts(self) -> Iterable[Canvas[Any]]:
        return [node.canvas for node in self.nodes.values()]

    def decode(self, value: msgspec.Raw) -> Any:
        # A FailedResult may stand for it, or the value of one who ended a chain early.
        values = msgspec.json.decode(value, type=dict[str, msgspec.Raw]) if bytes(value).startswith(b"{") else {}
        if not values or not values.keys() <= self.nodes.keys():
            return msgspec.json.decode(value)
        return {name: self.nodes[name].canvas.decode(part) for name, part in values.items()}

    def build(self, builder: Builder, source: Source, scope: Scope, end_id: str | None) -> Building:
        nodes = self._in_order()
        source, scope = self.entered(source, scope)
        join_id = builder.canvas_id if scope.is_root else end_id or builder.new_id()
        builder.note("workflow", scope, name=self.name, **({} if scope.is_root else {"id": join_id}))
        inner = scope.inside(is_link=False, is_followed=False, is_root=False, join_id=None)
        ends: dict[str, str] = {}
        for node in nodes:
            builder.note("node", inner, name=node.name, **({"after": list(node.all_before)} if node.all_before else {}))
            ends[node.name] = yield _build_node(node, builder, _before(node, ends, source), inner.inside())
        awaited = {name for node in nodes for name in node.all_before}
        value = {name: id for name, id in ends.items() if name not in awaited}
        builder.join(value, tuple(value.values()) or source.after, source, scope, join_id, OnFailure.CANCEL)
        yield from self.attach(builder, join_id, scope)
        return join_id

    def _in_order(self) -> list[WorkflowNode]:
        """The nodes, each after those that it waits for. Raises InvalidTask for a cycle or a node that is not there."""
        for node in self.nodes.values():
            for name in node.all_before:
                if name not in self.nodes:
                    raise InvalidTask(
                        f"Node {node.name} of workflow {self.name} waits for {name!r}, which is no node of it; "
                        f"its nodes are {', '.join(self.nodes)}."
                    )
        ordered: dict[str, WorkflowNode] = {}
        for name in self.nodes:
            self._place(name, ordered)
        return list(ordered.values())

    def _place(self, name: str, ordered: dict[str, WorkflowNode]) -> None:
        """Add a node behind all that it waits for."""
        path, ways = [name], [iter(self.nodes[name].all_before)]
        while path:
            before = next((each for each in ways[-1] if each not in ordered), None)
            if before is None:
                ways.pop()
                done = path.pop()
                ordered[done] = self.nodes[done]
            elif before in path:
                cycle = [*path[path.index(before) :], before]
                raise InvalidTask(
                    f"Workflow {self.name} waits for itself: {' waits for '.join(cycle)}; remove one of these."
                )
            else:
                path.append(before)
                ways.append(iter(self.nodes[before].all_before))

    def _form(self) -> dict[str, Any]:
        return {"name": self.name, "nodes": {name: _node_form(node) for name, node in self.nodes.items()}}

    def _changed(self, **changes: Any) -> Self:
        name = changes.pop("name", self.name)
        of = {key: value for key, value in of_all(self).items() if key != "name"}
        return type(self)(name, self.nodes, **{**of, **changes})

    def __repr__(self) -> str:
        return f"workflow({self.name!r}: {', '.join(self.nodes)})"


def workflow(name: str) -> Workflow:
    """Begin a workflow: `w = workflow("orders")`, then `w.add("pay", pay.s(1), after=[…])` for each node, and `w.submit()`."""
    return Workflow(name)


def _build_node(node: WorkflowNode, builder: Builder, source: Source, scope: Scope) -> Building:
    """Add a node; one without tasks, other than an empty group, ends when those before it have ended, without a value."""
    if not node.canvas.is_empty or node.canvas.kind == "group":
        end_id: str = yield node.canvas.build(builder, source, scope, None)
        return end_id
    join_id = builder.new_id()
    builder.join(None, source.after, source, scope, join_id, OnFailure.CANCEL)
    return join_id


def _before(node: WorkflowNode, ends: Mapping[str, str], source: Source) -> Source:
    if not node.all_before:
        return source
    after = tuple(ends[name] for name in node.all_before)
    inputs = {parameter: ends[name] for parameter, name in node.inputs.items()}
    return Source(after=after, inputs=inputs, parent=after[0] if len(after) == 1 else source.parent)


def _name_of(node: WorkflowNode | str) -> str:
    return node.name if isinstance(node, WorkflowNode) else node


def _node_form(node: WorkflowNode) -> dict[str, Any]:
    form: dict[str, Any] = {"canvas": node.canvas.to_dict()}
    if node.after:
        form["after"] = list(node.after)
    if node.inputs:
        form["inputs"] = node.inputs
    return form
