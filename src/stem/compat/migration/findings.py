"""What `stem migrate celery` finds in a project."""

from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """Whether something goes on working: with the new import line, with a difference, or not at all."""

    WORKS = "works"
    DIFFERS = "differs"
    REFUSED = "refused"


class Finding(msgspec.Struct, frozen=True):
    """One place in a project. `why` is a sentence; of a refused one it names the replacement."""

    file: str
    line: int
    verdict: Verdict
    what: str
    why: str


class Findings(msgspec.Struct, frozen=True):
    """All of a project, in the order of its files."""

    files: int  # that were read
    found: list[Finding]
    unreadable: dict[str, str]  # files that are no Python, and why

    def of(self, verdict: Verdict) -> list[Finding]:
        return [each for each in self.found if each.verdict is verdict]

    @property
    def can_move(self) -> bool:
        return not self.of(Verdict.REFUSED)
