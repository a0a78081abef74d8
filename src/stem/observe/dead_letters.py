"""Dead letters, grouped by the fingerprint of their error."""

from datetime import datetime

import msgspec

from stem.contracts.store import Store
from stem.core.delivery import DeadFilter, DeadLetter
from stem.core.text.fingerprint import fingerprint, normalised

MOST_READ = 5000
_STEP = 500


class LetterGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of one task with one error. `newest` is a sample."""

    fingerprint: str
    name: str
    error_type: str
    message: str  # with placeholders for what varies
    reasons: tuple[str, ...]
    queues: tuple[str, ...]
    count: int
    first_at: datetime
    last_at: datetime
    newest: DeadLetter
    ids: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.name}: {self.error_type}"


class Letters(msgspec.Struct, frozen=True):
    """Groups, the largest first. `is_whole` is False if there are more letters than were read."""

    groups: list[LetterGroup]
    count: int
    is_whole: bool


def letters(store: Store, where: DeadFilter | None = None, *, most: int = MOST_READ) -> Letters:
    """Read up to `most` matching letters, newest first, and group them."""
    found: dict[str, list[DeadLetter]] = {}
    count, cursor, is_whole = 0, None, True
    while True:
        page = store.deadletters.page(where or DeadFilter(), limit=min(_STEP, most - count), cursor=cursor)
        for letter in page.items:
            found.setdefault(fingerprint_of(letter), []).append(letter)
        count, cursor = count + len(page.items), page.cursor
        if cursor is None or count >= most:
            is_whole = cursor is None
            break
    groups = [_group(key, group) for key, group in found.items()]
    return Letters(sorted(groups, key=lambda group: (-group.count, group.name)), count, is_whole)


def fingerprint_of(letter: DeadLetter) -> str:
    """Of the task's name and its error: one error of two tasks is two groups."""
    error_type, message = _error(letter)
    return fingerprint(f"{letter.name}\n{error_type}", message)


def _group(key: str, found: list[DeadLetter]) -> LetterGroup:
    newest = found[0]
    error_type, message = _error(newest)
    return LetterGroup(
        fingerprint=key,
        name=newest.name,
        error_type=error_type,
        message=normalised(message),
        reasons=tuple(sorted({letter.reason for letter in found})),
        queues=tuple(sorted({letter.queue for letter in found})),
        count=len(found),
        first_at=min(letter.dead_at for letter in found),
        last_at=max(letter.dead_at for letter in found),
        newest=newest,
        ids=tuple(letter.id for letter in found),
    )


def _error(letter: DeadLetter) -> tuple[str, str]:
    return (letter.reason, "") if letter.error is None else (letter.error.type, letter.error.message)
