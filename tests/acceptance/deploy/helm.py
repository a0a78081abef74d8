"""Renders the few constructs of Helm that our chart uses, for machines without Helm; anything else is an error."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

_ACTION = re.compile(r"(\s*\{\{-|\{\{) *(.*?) *\}\}", re.DOTALL)


def render(chart: Path, *, release: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the manifests, as `helm template RELEASE CHART --namespace RELEASE` would."""
    given = _merged(yaml.safe_load((chart / "values.yaml").read_text()), values or {})
    scope = {"Values": given, "Release": {"Name": release, "Namespace": release}}
    texts = [_render(path.read_text(), scope) for path in sorted((chart / "templates").iterdir())]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    return below | {
        key: _merged(below[key], value) if isinstance(value, dict) else value for key, value in above.items()
    }


def _render(text: str, scope: Any) -> str:
    done, rest = _block(_tokens(text), scope, is_shown=True)
    assert not rest, "an end too many"
    return done


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    for action in _ACTION.finditer(text):
        found += [("text", text[at : action.start()]), ("action", action[2])]
        at = action.end()
    return [*found, ("text", text[at:])]


def _block(tokens: list[tuple[str, str]], scope: Any, *, is_shown: bool) -> tuple[str, list[tuple[str, str]]]:
    """Render up to the end of the block; return what follows it."""
    done = ""
    while tokens:
        (kind, text), tokens = tokens[0], tokens[1:]
        if kind == "text":
            done += text if is_shown else ""
        elif text == "end":
            return done, tokens
        elif text.startswith(("if ", "range ")):
            word, _, what = text.partition(" ")
            scopes = _scopes(word, what, scope) if is_shown else []
            shown = [_block(tokens, each, is_shown=True)[0] for each in scopes]
            done += "".join(shown)
            tokens = _block(tokens, scope, is_shown=False)[1]
        elif is_shown:
            done += _value(text, scope)
    return done, []


def _scopes(word: str, what: str, scope: Any) -> list[Any]:
    if word == "range":
        return list(_found(what, scope))
    is_so = not _found(what.removeprefix("not "), scope) if what.startswith("not ") else bool(_found(what, scope))
    return [scope] if is_so else []


def _value(text: str, scope: Any) -> str:
    if match := re.fullmatch(r"(\.[\w.]*) \| (quote|toJson)", text):
        value = _found(match[1], scope)
        return json.dumps(str(value) if match[2] == "quote" else value)
    if match := re.fullmatch(r"add (\.[\w.]+) (\d+)", text):
        return str(_found(match[1], scope) + int(match[2]))
    if match := re.fullmatch(r'join "([^"]*)" (\.[\w.]+)', text):
        return match[1].join(_found(match[2], scope))
    return str(_found(text, scope))


def _found(path: str, scope: Any) -> Any:
    assert re.fullmatch(r"\.[\w.]*", path), f"our chart uses {path!r}, which this renderer does not know"
    for name in filter(None, path.split(".")):
        scope = scope[name]
    return scope
