"""What tasks print: in order, the newest lines of each, from any position on, for a while."""

from conftest import OpenStore
from stem.contracts.store import Store
from stem.contracts.task_logs import MOST_LINES, LogLine
from stem.core.settings.app import Retention
from support.until import until


def lines(task: str, *texts: str, attempt: int = 0) -> list[LogLine]:
    return [LogLine(task_id=task, attempt=attempt, at=1.5, level="info", text=text) for text in texts]


def texts(store: Store, task: str, *, after: str | None = None, limit: int = MOST_LINES) -> list[str]:
    return [each.line.text for each in store.task_logs.read(task, after=after, limit=limit)]


def test_lines_are_read_in_order_and_task_by_task(store: Store) -> None:
    store.task_logs.append([*lines("a", "1"), *lines("b", "x"), *lines("a", "2")])
    store.task_logs.append(lines("a", "3", attempt=1))
    assert texts(store, "a") == ["1", "2", "3"]
    assert texts(store, "b") == ["x"]
    assert texts(store, "unknown") == []
    assert store.task_logs.read("a")[-1].line == lines("a", "3", attempt=1)[0]


def test_a_reader_goes_on_after_a_position(store: Store) -> None:
    store.task_logs.append(lines("a", "1", "2", "3"))
    first = store.task_logs.read("a", limit=1)[0]
    assert first.line.text == "1"
    assert texts(store, "a", after=first.position) == ["2", "3"]
    assert texts(store, "a", after=first.position, limit=1) == ["2"]
    last = store.task_logs.read("a")[-1].position
    assert texts(store, "a", after=last) == []
    store.task_logs.append(lines("a", "4"))
    assert texts(store, "a", after=last) == ["4"]


def test_the_newest_lines_of_a_task_stay(store: Store) -> None:
    store.task_logs.append(lines("other", "kept"))
    for start in range(0, MOST_LINES + 700, 600):
        store.task_logs.append(lines("a", *map(str, range(start, start + 600))))
    found = texts(store, "a")
    assert len(found) == MOST_LINES
    assert found == list(map(str, range(1800 - MOST_LINES, 1800)))
    assert texts(store, "other") == ["kept"]


def test_any_text_is_kept(store: Store) -> None:
    hostile = ["", "\x00\x1b[31m", "ünïcödé ␟ 😀", "a\nb", "x" * 4000, '{"json": 1}']
    store.task_logs.append(lines("a", *hostile))
    assert texts(store, "a") == hostile
    store.task_logs.append([])
    assert texts(store, "a") == hostile


def test_lines_expire(open_store: OpenStore) -> None:
    brief = open_store(retention=Retention(logs_seconds=0.2))
    brief.task_logs.append(lines("a", "1"))
    until(lambda: brief.upkeep.prune() == 0 and not texts(brief, "a"))


def test_namespaces_live_apart(open_store: OpenStore) -> None:
    here, there = open_store(), open_store("elsewhere")
    here.task_logs.append(lines("a", "1"))
    assert texts(there, "a") == []
