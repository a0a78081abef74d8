"""How far a Spark job is, as far as its stages tell: never less than it said before, and never all of it."""

from dataclasses import dataclass

# Nobody knows how many jobs a function will start: each that is known gets this part of what was left before it.
SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Seen:
    """Tasks of one job, or of one operation."""

    done: int
    all: int


class Progress:
    def __init__(self) -> None:
        self._furthest = 0.0

    def of(self, jobs: list[Seen]) -> tuple[float, str]:
        """`jobs` in the order in which they were started."""
        left = 1.0
        for job in jobs:
            left -= left * SHARE * (job.done / job.all if job.all else 0.0)
        self._furthest = max(self._furthest, round(1.0 - left, 4))
        return self._furthest, _told(jobs)


def _told(jobs: list[Seen]) -> str:
    if not jobs:
        return "no Spark job yet"
    return f"job {len(jobs)}, {jobs[-1].done} of {jobs[-1].all} tasks"
