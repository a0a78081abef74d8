"""`stem routing`: show the rules that choose where calls go, and where those of one task go."""

import os
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from stem.cli.support import printing
from stem.cli.support.lazy_group import SuggestingGroup
from stem.cli.support.stores import Session, in_session

if TYPE_CHECKING:
    from stem.client.task.definition import Definition
    from stem.core.decisions.routing import Route

_COLUMNS = ("rule", "match", "queue", "priority", "tenant", "broadcast", "from")
_FIELDS = ("match", "queue", "priority", "tenant", "broadcast", "origin")


@click.group(cls=SuggestingGroup)
def routing() -> None:
    """Show where calls go.

    \b
    Example: stem routing show mail.send --app shop:app
    """


@routing.command()
@click.argument("task", required=False)
@in_session
def show(session: Session, task: str | None) -> None:
    """List the rules in their order, or show where calls of TASK go and by which rule.

    Without --app only the rules of stem.yaml are known, and of TASK only its name. No store is connected to.

    \b
    Example: stem routing show --app shop:app
             stem routing show mail.send --app shop:app --json
    """
    from stem import Stem

    path = session.app_path or os.environ.get("STEM_APP")
    app = session.load_app(path) if path else Stem(settings=session.settings())
    rules = app.settings.routes
    if task is None:
        _show_rules(rules, as_json=session.as_json)
        return
    told = _told(app.sender(task, check=False).definition, rules, is_known=task in app.tasks)
    if session.as_json:
        printing.json(told)
    else:
        _show_task(told)


def _show_rules(rules: "tuple[Route, ...]", *, as_json: bool) -> None:
    if as_json:
        printing.json({"rules": [_fields(number, rule) for number, rule in enumerate(rules, start=1)]})
        return
    rows = [
        (
            number,
            rule.match,
            rule.queue,
            rule.priority,
            rule.tenant,
            "yes" if rule.broadcast else "",
            _place(rule.origin),
        )
        for number, rule in enumerate(rules, start=1)
    ]
    empty = "There are no rules; every call goes where its task says."
    printing.table(_COLUMNS, rows, empty=empty, shrink=("match", "queue", "tenant", "from"))


def _told(definition: "Definition", rules: "tuple[Route, ...]", *, is_known: bool) -> dict[str, Any]:
    plan, route = definition.plan, definition.route
    return {
        "task": definition.name,
        "isKnown": is_known,
        "rule": None if route is None else _fields(rules.index(route) + 1, route),
        "queue": None if plan.is_broadcast else plan.queue,
        "declaredQueue": definition.declared_queue or plan.queue,
        "priority": plan.priority,
        "tenant": plan.tenant,
        "broadcast": plan.is_broadcast,
    }


def _show_task(told: dict[str, Any]) -> None:
    rule = told["rule"]
    declared = f"  (declared: {told['declaredQueue']})" if told["queue"] not in (None, told["declaredQueue"]) else ""
    printing.facts(
        {
            "task": told["task"]
            if told["isKnown"]
            else f"{told['task']}  (not a task of this app; its defaults are shown)",
            "rule": "none" if rule is None else f"{rule['rule']}, {rule['match']}  ({_place(rule['origin'])})",
            "queue": "the own queue of every live worker" if told["broadcast"] else f"{told['queue']}{declared}",
            "priority": told["priority"],
            "tenant": told["tenant"],
        }
    )


def _fields(number: int, rule: "Route") -> dict[str, Any]:
    return {"rule": number, **{name: getattr(rule, name) for name in _FIELDS}}


def _place(origin: str) -> str:
    """Without the folder, so that the line is not cut off."""
    return PurePath(origin).name
