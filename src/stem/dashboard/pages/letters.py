"""Dead letters, in groups of one task and one error."""

from typing import Any

from stem.core.delivery import DeadFilter
from stem.core.errors import DeadLetterNotFound
from stem.dashboard.handling import PageRequest
from stem.observe.dead_letters import LetterGroup, letters

SHOWN = 50


def letters_page(ask: PageRequest) -> dict[str, Any]:
    where = DeadFilter(queue=ask.text("queue"), name=ask.text("name"), reason=ask.text("reason"))
    filters = {name: value for name in ("queue", "name", "reason") if (value := ask.text(name))}
    return {"title": "Dead letters", "found": letters(ask.store, where), "filters": filters}


def letter_group_page(ask: PageRequest) -> dict[str, Any]:
    group = find_group(ask, ask.path["fingerprint"])
    page = ask.store.deadletters.page(DeadFilter(ids=group.ids[:SHOWN]), limit=SHOWN)
    return {"title": group.title, "group": group, "letters": page.items, "most": SHOWN}


def find_group(ask: PageRequest, fingerprint: str) -> LetterGroup:
    """Raises DeadLetterNotFound."""
    for group in letters(ask.store).groups:
        if group.fingerprint == fingerprint:
            return group
    raise DeadLetterNotFound("There is no dead letter of that error, or no more; see the dead letters there are.")
