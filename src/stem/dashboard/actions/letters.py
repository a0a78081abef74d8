"""Replay and purge dead letters: one group, or all."""

from stem.control.dead_letters import purge_letters, replay_letters
from stem.core.delivery import DeadFilter
from stem.core.errors import DeadLetterNotFound
from stem.dashboard.handling import ActionRequest, ActionResult
from stem.observe.dead_letters import LetterGroup, letters


def replay_group(ask: ActionRequest) -> ActionResult:
    group = _group(ask)
    ids = replay_letters(ask.store, DeadFilter(ids=group.ids))
    return ActionResult(f"Replayed {len(ids):,} of {group.title}.")


def purge_group(ask: ActionRequest) -> ActionResult:
    group = _group(ask)
    return ActionResult(f"Deleted {purge_letters(ask.store, DeadFilter(ids=group.ids)):,} of {group.title}.")


def replay_all_letters(ask: ActionRequest) -> ActionResult:
    return ActionResult(f"Replayed {len(replay_letters(ask.store, _filter(ask))):,}.")


def purge_all_letters(ask: ActionRequest) -> ActionResult:
    return ActionResult(f"Deleted {purge_letters(ask.store, _filter(ask)):,}.")


def _filter(ask: ActionRequest) -> DeadFilter:
    return DeadFilter(queue=ask.text("queue"), name=ask.text("name"), reason=ask.text("reason"))


def _group(ask: ActionRequest) -> LetterGroup:
    for group in letters(ask.store).groups:
        if group.fingerprint == ask.path["fingerprint"]:
            return group
    raise DeadLetterNotFound("There is no dead letter of that error, or no more; see the dead letters there are.")
