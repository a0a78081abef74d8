"""The first rule whose glob matches a task's name counts; a worker's own queue is a queue of its own."""

from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stem.core.decisions.routing import MOST_REMEMBERED, Route, Routes, is_queue_of_worker, queue_of_worker
from stem.core.envelope import check_queue
from stem.core.errors import ConfigError
from stem.core.heartbeat import Heartbeat

LETTERS = "ab.:<>-_"
names = st.text(LETTERS, min_size=1, max_size=8)
globs = st.lists(st.sampled_from([*LETTERS, "*", "?", "[ab]", "[!a]", "[a-b]"]), min_size=1, max_size=6).map("".join)
worker_names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@:\-]{0,127}", fullmatch=True)


@given(st.lists(globs, max_size=8), st.lists(names, max_size=8))
def test_the_first_match_wins(matches: list[str], tasks: list[str]) -> None:
    rules = [Route(match, queue=f"q{number}") for number, match in enumerate(matches)]
    routes = Routes(rules)
    for task in [*tasks, *tasks]:  # the second time from memory
        expected = next((rule for rule in rules if fnmatchcase(task, rule.match)), None)
        assert routes.route_of(task) is expected


@pytest.mark.parametrize(
    ("match", "task", "is_matched"),
    [
        ("mail.*", "mail.send", True),
        ("mail.*", "mail.bulk.send", True),
        ("mail.*", "mail", False),
        ("mail.*", "email.send", False),
        ("mail.*", "Mail.send", False),
        ("mail.send", "mail.sendx", False),
        ("mail?send", "mail.send", True),
        ("*", "anything", True),
        ("job-[0-4]", "job-3", True),
        ("job-[!0-4]", "job-3", False),
        ("shop.make.<locals>.*", "shop.make.<locals>.f", True),
    ],
)
def test_a_glob_covers_the_whole_name_in_its_case(match: str, task: str, is_matched: bool) -> None:
    assert (Routes([Route(match)]).route_of(task) is not None) is is_matched


def test_without_rules_nothing_is_remembered() -> None:
    routes = Routes()
    assert routes.route_of("mail.send") is None and routes._found == {}


def test_names_that_callers_make_up_do_not_fill_the_memory() -> None:
    routes = Routes([Route("a*")])
    for number in range(MOST_REMEMBERED + 100):
        assert routes.route_of(f"b{number}") is None
    assert len(routes._found) == MOST_REMEMBERED


def test_a_glob_of_many_stars_is_quick_however_long_the_name() -> None:
    assert Routes([Route("*a" * 100 + "b")]).route_of("a" * 255) is None


@pytest.mark.parametrize("match", ["", "mail .*", "mail.[", "mail.[]", "a" * 256, "^mail", "mail.**\n", 5, None, ["a"]])
def test_an_invalid_glob_is_refused(match: Any) -> None:
    with pytest.raises(ConfigError, match=r"A route has the match .*; use a task's name with"):
        Route(match)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"queue": "my mail"}, "Queue 'my mail' is not allowed"),
        ({"queue": 7}, "Queue 7 is not allowed"),
        ({"priority": 10}, "Priority 10 is not a whole number from 0"),
        ({"priority": True}, "Priority True is not a whole number"),
        ({"priority": "5"}, "Priority '5' is not a whole number"),
        ({"tenant": ""}, "has the tenant ''; use a text of 1 to 255 bytes"),
        ({"tenant": 7}, "has the tenant 7; use a text"),
        ({"tenant": "a\x00"}, "use a text"),
        ({"tenant": "\ud800"}, "use a text"),
        ({"tenant": "x" * 256}, "use a text"),
        ({"broadcast": "yes"}, "has broadcast 'yes'; use true or false"),
        ({"broadcast": True, "queue": "mail"}, "has both a queue and broadcast"),
    ],
)
def test_a_rule_that_cannot_be_used_names_its_glob(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Route("mail.*", **options)
    assert sentence in str(caught.value) and "for mail.*" in str(caught.value)


def test_a_range_in_the_wrong_order_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"\[z-a\] has its ends in the wrong order"):
        Route("mail.[z-a]")


@given(worker_names, worker_names)
def test_every_worker_has_a_queue_and_no_two_the_same(one: str, other: str) -> None:
    queue = queue_of_worker(one)
    assert check_queue(queue) == queue and is_queue_of_worker(queue)
    assert (queue_of_worker(other) == queue) is (one == other)


def heartbeat(worker: str, **fields: Any) -> Heartbeat:
    given = {"host": "h", "pid": 1, "uptime_seconds": 1.0, "concurrency": 1, "in_flight": 0, "queues": ["default"]}
    return Heartbeat(worker_id=worker, namespace="stem", **{**given, **fields})


def test_a_worker_serves_its_queues_those_of_their_tenants_and_its_own() -> None:
    beat = heartbeat("w1")
    assert [beat.serves(queue) for queue in ("default", "default:acme", "worker.w1")] == [True] * 3
    assert [beat.serves(queue) for queue in ("mail", "defaulted", "worker.w2", "worker.w1:acme")] == [False] * 4


@pytest.mark.parametrize(
    ("extras", "runs", "has"),
    [
        ({}, True, True),
        ({"kind": "scheduler"}, False, True),
        ({"state": "draining"}, False, True),
        ({"state": "paused", "tasks": {"a": ["default", 3]}}, True, True),
        ({"tasks": {"b": ["default", 3]}}, True, False),
        ({"tasks": {}}, True, True),
        ({"tasks": "hostile", "kind": ["x"], "state": 5}, True, True),
    ],
)
def test_a_heartbeat_describes_running_tasks(extras: dict[str, Any], runs: bool, has: bool) -> None:
    beat = heartbeat("w1", extras=extras)
    assert (beat.runs_tasks, beat.may_have("a")) == (runs, has)
