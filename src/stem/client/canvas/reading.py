"""Reads the JSON form of a canvas."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from stem.client.canvas.canvas import Canvas, Chain
from stem.client.canvas.form import read_options
from stem.client.canvas.group import Chord, Group
from stem.client.canvas.signature import Signature
from stem.client.canvas.workflow import Workflow
from stem.core.errors import InvalidTask

if TYPE_CHECKING:
    from stem.client.send.sender import Sender

FindSender = Callable[[str], "Sender[..., Any]"]


def read_canvas(form: Mapping[str, Any], sender: FindSender) -> Canvas[Any]:
    """Make the canvas that `to_dict` described. Raises InvalidTask, UnknownTask."""
    try:
        return _Reader(sender).read(form)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidTask(f"The form of a canvas cannot be read ({error!r}); write it with to_dict().") from error


class _Reader:
    def __init__(self, sender: FindSender) -> None:
        self._sender = sender

    def read(self, form: Mapping[str, Any]) -> Canvas[Any]:
        made = self._made(form)
        of_all: dict[str, Any] = {}
        if options := form.get("options"):
            of_all["options"] = read_options(options)
        if links := form.get("link"):
            of_all["links"] = tuple(map(self.read, links))
        if errors := form.get("linkError"):
            of_all["errors"] = tuple(map(self.read, errors))
        if (name := form.get("name")) is not None:
            of_all["name"] = str(name)
        return made._changed(**of_all) if of_all else made

    def _made(self, form: Mapping[str, Any]) -> Canvas[Any]:
        match form["kind"]:
            case "task":
                args, kwargs = tuple(form.get("args", ())), form.get("kwargs", {})
                return Signature(
                    self._sender(form["task"]), args, kwargs, is_immutable=form.get("immutable", False) is True
                )
            case "chain":
                return Chain(map(self.read, form["steps"]))
            case "group":
                return self._group(form)
            case "chord":
                header = self.read(form["header"])
                if not isinstance(header, Group):
                    raise InvalidTask("The header of a chord is no group; write the form with to_dict().")
                return Chord(header, self.read(form["body"]))
            case "workflow":
                return self._workflow(form)
            case kind:
                raise InvalidTask(f"There is no canvas of kind {kind!r}; write the form with to_dict().")

    def _group(self, form: Mapping[str, Any]) -> Group[Any]:
        return Group(list(map(self.read, form["members"])), partial=form.get("partial", False) is True)

    def _workflow(self, form: Mapping[str, Any]) -> Workflow:
        made = Workflow(form["name"])
        for name, node in form["nodes"].items():
            made.add(name, self.read(node["canvas"]), after=node.get("after", ()), inputs=node.get("inputs", {}))
        return made
