"""Finds the log events in the source: every literal that begins like `noun.verb`, in a module that logs."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
EVENT = re.compile(r"[a-z]+(?:[_-][a-z]+)*\.[a-z]+(?:[_-][a-z]+)*(?=[ :;]|$)")
LOGS = ("getLogger(", "SummedLog(", "LogStream(")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class LogEvent:
    name: str
    levels: set[str] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)
    places: set[str] = field(default_factory=set)

    @property
    def row(self) -> str:
        """The row of the table that this event needs, without what only a person can say."""
        fields = ", ".join(f"`{name}`" for name in sorted(self.fields))
        return f"| `{self.name}` | {', '.join(sorted(self.levels))} | … | {fields} |"


def log_events(src: Path) -> tuple[dict[str, LogEvent], list[str]]:
    """Returns the events by name, and the places that log a message which does not begin with one."""
    events: dict[str, LogEvent] = {}
    unnamed: list[str] = []
    for path in sorted(src.rglob("*.py")):
        text = path.read_text()
        if any(word in text for word in LOGS):
            for line, message, level in _messages(ast.parse(text)):
                place, name = f"{path.relative_to(src)}:{line}", EVENT.match(message)
                if name is None:
                    unnamed.append(place)
                    continue
                event = events.setdefault(name[0], LogEvent(name[0]))
                event.levels |= {level} - {""}
                event.fields |= set(re.findall(r"(\w+)=[%{]", message))
                event.places.add(place)
    return events, unnamed


def _messages(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yields (line, message, level). The level is empty where it is decided at run time."""
    for scope in (node for node in ast.walk(tree) if isinstance(node, Function)):
        assigned = _assigned(scope)
        for call in (node for node in ast.walk(scope) if isinstance(node, ast.Call)):
            if level := _level(call.func):
                if isinstance(call.args[0], ast.Name):
                    level = ""  # one name may stand for several messages
                texts = [text for text in _texts(call.args[0], assigned) if text not in ("%s", "%s%s")]
                # A message that only has a place for a sentence: the sentence begins with the event.
                sentences = texts or _texts(call.args[-1], assigned)
                yield from ((call.lineno, text, level) for text in sentences)
            else:
                yield from ((call.lineno, text, "") for text in _handed_on(call, assigned))


def _assigned(scope: ast.AST) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return found


def _level(function: ast.expr) -> str:
    """The level of a call of a logger; empty for other calls."""
    if not isinstance(function, ast.Attribute) or function.attr not in LEVELS:
        return ""
    is_logger = re.search(r"log|_summary|_forgeries", ast.unparse(function.value))
    return ("error" if function.attr == "exception" else function.attr) if is_logger else ""


def _handed_on(call: ast.Call, assigned: dict[str, list[ast.expr]]) -> Iterator[str]:
    """Messages that another function logs: a timer, a record made by hand, a stream that stands for stderr."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    inside = [element for each in given if isinstance(each, ast.Tuple | ast.List) for element in each.elts]
    for text in (text for each in (*given, *inside) for text in _texts(each, assigned)):
        name = EVENT.match(text)
        if name and (name[0] != text or (ast.unparse(call.func) == "LogStream" and not text.startswith("stem."))):
            yield text


def _texts(node: ast.expr, assigned: dict[str, list[ast.expr]]) -> list[str]:
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return ["".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in values)]
        case ast.IfExp(body=body, orelse=orelse):
            return _texts(body, assigned) + _texts(orelse, assigned)
        case ast.Name(id=name):
            return [text for value in assigned.get(name, ()) for text in _texts(value, {})]
        case _:
            return []
