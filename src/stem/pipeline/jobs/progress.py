"""Estimate the progress of Spark jobs from their stages: never decreasing, and below 1."""

from dataclasses import dataclass

# The number of jobs is unknown: each job gets this share of what the jobs before it left.
SHARE = 0.5


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Finished and total Spark tasks of one job or operation."""

    done: int
    all: int


class Progress:
    def __init__(self) -> None:
        self._furthest = 0.0

    def of(self, jobs: list[TaskCounts]) -> tuple[float, str]:
        """`jobs` in the order in which they were started."""
        left = 1.0
        for job in jobs:
            left -= left * SHARE * (job.done / job.all if job.all else 0.0)
        self._furthest = max(self._furthest, round(1.0 - left, 4))
        return self._furthest, _message(jobs)


def _message(jobs: list[TaskCounts]) -> str:
    if not jobs:
        return "no Spark job yet"
    return f"job {len(jobs)}, {jobs[-1].done} of {jobs[-1].all} tasks"
