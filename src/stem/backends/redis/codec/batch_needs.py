"""Collect what the tasks of a batch need of others, so that a script can check it before it writes anything."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from stem.core.delivery import Ending
from stem.core.envelope import Push
from stem.core.event import event_kinds
from stem.core.outcome import Block, Cancelled, Dead, Done


class Needs(NamedTuple):
    """What the tasks of a batch need of others, as shared/pushing.lua takes it."""

    checks: list[str | dict[str, Any]]
    awaiting: dict[str, str | list[str]]  # by task: those of the batch that will wait for it


_NOTHING = Needs([], {})


def needs(pushes: Sequence[Push]) -> Needs:
    """Collect the prerequisites of a batch of pushes."""
    if not any(push.envelope.after or push.into for push in pushes):
        return _NOTHING
    found = Needs([], {})
    _add_pushes(found, pushes)
    return found


def needs_of_endings(endings: Sequence[Ending]) -> Needs:
    """Collect the prerequisites of a batch of endings and their follow-ups."""
    if not any(
        isinstance(ending.settlement, Block) or any(push.envelope.after or push.into for push in ending.follow_ups)
        for ending in endings
    ):
        return _NOTHING
    found = Needs([], {})
    for ending in endings:
        settlement, id = ending.settlement, ending.lease.id
        ends = event_kinds(settlement)[0] if isinstance(settlement, Done | Dead | Cancelled) else False
        found.checks.append({"lease": id, "fence": ending.lease.fence, "ends": ends})
        _add_pushes(found, ending.follow_ups)
        if isinstance(settlement, Block):
            found.checks.append({"blocks": settlement.after, "but": id})
            _await(found.awaiting, settlement.after, id)
    return found


def _add_pushes(found: Needs, pushes: Sequence[Push]) -> None:
    for push in pushes:
        id, after, unique = push.envelope.id, push.envelope.after, push.unique
        if not after and push.into is None and unique is None:
            found.checks.append(id)
            continue
        found.checks.append(
            {
                "id": id,
                "after": after,
                "into": push.into or False,
                "key": False if unique is None else unique.key,
                "supersedes": unique is not None and unique.supersedes is not None,
            }
        )
        _await(found.awaiting, after, id)
        if push.into is not None:
            _await(found.awaiting, [id], push.into)


def _await(awaiting: dict[str, str | list[str]], prerequisites: Iterable[str], dependent: str) -> None:
    for id in dict.fromkeys(prerequisites):
        others = awaiting.get(id)
        if others is None:
            awaiting[id] = dependent
        elif isinstance(others, list):
            others.append(dependent)
        elif others != dependent:
            awaiting[id] = [others, dependent]
