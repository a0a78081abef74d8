"""Replay and delete dead letters in steps, so that no call to the store takes long."""

from stem.contracts.store import Store
from stem.core.delivery import DeadFilter

STEP = 1000


def replay_letters(store: Store, where: DeadFilter, limit: int | None = None, delay_seconds: float = 0.0) -> list[str]:
    """Queue matching letters again, newest first, and return their ids. Without a limit: all that match."""
    ids: list[str] = []
    while (step := _next_step(limit, len(ids))) > 0:
        replayed = store.deadletters.replay(where, limit=step, delay_seconds=delay_seconds)
        ids += replayed
        if len(replayed) < step:
            break
    return ids


def purge_letters(store: Store, where: DeadFilter, limit: int | None = None) -> int:
    """Delete matching letters for good, newest first, and return how many. Without a limit: all that match."""
    count = 0
    while (step := _next_step(limit, count)) > 0:
        dropped = store.deadletters.purge(where, limit=step)
        count += dropped
        if dropped < step:
            break
    return count


def _next_step(limit: int | None, done: int) -> int:
    return STEP if limit is None else min(STEP, limit - done)
