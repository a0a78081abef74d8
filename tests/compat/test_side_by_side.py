"""One project, two runs on one Redis server: what differs from Celery is in the table of the documentation, and nothing else."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from compat.side_by_side import BIN, PROJECT, Side, with_bridge
from support.servers import RedisServer

PAGE = Path(__file__).parents[2] / "docs" / "coming-from-celery.md"
LINES = (PROJECT / "behaviours.py").read_text().splitlines()
NAMES = [
    line.removeprefix("def ").partition("(")[0]
    for decorator, line in pairwise(LINES)
    if decorator in ("@behaviour", "@alone")
]

# What the two observe where they differ, and the row of the table that says so.
DIFFERENCES: dict[str, tuple[Any, Any, str]] = {
    "the_same_id_twice": (2, 1, "A `task_id` that was used before"),
    "a_forgotten_result_asked_for_anew": ("PENDING", "SUCCESS", "`forget()`"),
    "a_task_that_ignores_itself": ("STARTED", "REVOKED", "`raise Ignore()`"),
    "a_task_that_kills_its_process": (
        [["raised", "WorkerLostError"], 1],
        [["raised", "WorkerLostError"], 3],
        "A process that dies while it runs a task",
    ),
}

Observed = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def observed(
    redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Observed, Observed]]:
    assert (BIN / "celery").exists()
    sides = [Side(name, tmp_path_factory.mktemp(name), redis_server.url) for name in ("celery", "stem")]
    try:
        for side in sides:
            side.start()
        for side in sides:
            side.await_ready()
        for side in sides:
            side.begin()
        yield sides[0].finish(), sides[1].finish()
    finally:
        for side in sides:
            side.stop()


def test_at_least_forty_behaviours_are_compared() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 100


def test_only_import_lines_differ() -> None:
    for file in PROJECT.glob("*.py"):
        before, after = file.read_text().splitlines(), with_bridge(file.read_text()).splitlines()
        changed = [line for line, other in zip(before, after, strict=True) if line != other]
        assert changed and all(line.startswith(("from celery", "import celery")) for line in changed)


@pytest.mark.parametrize("name", NAMES)
def test_the_bridge_behaves_as_celery_does(name: str, observed: tuple[Observed, Observed]) -> None:
    celery, stem = observed[0][name]["seen"], observed[1][name]["seen"]
    if name in DIFFERENCES:
        assert (celery, stem) == DIFFERENCES[name][:2]
    else:
        assert stem == celery
        assert not (isinstance(celery, list) and celery[:1] == ["error"]), celery


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_is_in_the_table(name: str) -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    assert any(line.startswith(f"| {DIFFERENCES[name][2]}") for line in rows)
