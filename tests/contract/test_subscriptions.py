"""`app.events`: each event once and in order, from any offset, on every store."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from stem import Stem, UsageError
from stem.core.lifecycle import EventKind
from stem.core.settings.app import Settings

SOON = 20.0


@pytest.fixture
def app(store_url: str, namespace: str) -> Iterator[Stem]:
    with Stem(settings=Settings(broker_url=store_url, namespace=namespace)) as opened:
        yield opened


def enqueue(app: Stem, *ids: str, name: str = "one", queue: str = "default") -> None:
    for id in ids:
        app.enqueue(name, id=id, queue=queue, check=False)


def test_a_subscription_begins_where_it_is_made(app: Stem) -> None:
    enqueue(app, "before")
    events = app.events.subscribe(timeout=SOON)
    enqueue(app, "a", "b")
    assert [next(events).task_id, next(events).task_id] == ["a", "b"]


def test_it_goes_on_after_an_offset_and_from_the_oldest(app: Stem) -> None:
    enqueue(app, "a", "b", "c")
    whole = app.events.subscribe(after="", timeout=0.01)
    first = next(whole)
    assert (first.task_id, whole.offset) == ("a", first.offset)
    assert [event.task_id for event in app.events.subscribe(after=first.offset, timeout=0.01)] == ["b", "c"]
    assert [event.task_id for event in whole] == ["b", "c"]
    assert list(app.events.subscribe(after=whole.offset, timeout=0.01)) == []


def test_its_filters_must_all_match(app: Stem) -> None:
    enqueue(app, "a", name="mail.send", queue="mail")
    enqueue(app, "b", name="mail.send", queue="mail:acme")
    enqueue(app, "c", name="other", queue="mail")
    enqueue(app, "d", name="mail.send", queue="mailing")

    def ids(**wanted: list[str]) -> list[str]:
        return [event.task_id for event in app.events.subscribe(after="", timeout=0.01, **wanted)]

    assert ids(names=["mail.send"]) == ["a", "b", "d"]
    assert ids(queues=["mail"]) == ["a", "b", "c"]
    assert ids(queues=["mail"], names=["mail.send"]) == ["a", "b"]
    assert ids(task_ids=["c", "d"]) == ["c", "d"]
    assert ids(kinds=["succeeded"]) == []
    assert ids(kinds=[EventKind.ENQUEUED]) == ["a", "b", "c", "d"]


def test_events_that_do_not_match_are_not_read_twice(app: Stem) -> None:
    nothing = app.events.subscribe(after="", kinds=["failed"], timeout=0.01)
    enqueue(app, "a", "b")
    assert list(nothing) == []
    assert nothing.offset == app.store.events.head()


def test_a_waiting_subscription_is_woken(app: Stem) -> None:
    events = app.events.subscribe(timeout=SOON)
    later = threading.Timer(0.2, enqueue, (app, "late"))
    later.start()
    assert next(events).task_id == "late"
    later.join()


def test_closing_the_app_or_the_subscription_ends_it(app: Stem) -> None:
    events = app.events.subscribe()
    closer = threading.Timer(0.1, app.close)
    closer.start()
    assert list(events) == []
    closer.join()
    others = app.events.subscribe()
    others.close()
    assert list(others) == []


def test_wrong_filters_are_refused(app: Stem) -> None:
    with pytest.raises(UsageError, match="did you mean 'succeeded'"):
        app.events.subscribe(kinds=["succeded"])
    with pytest.raises(UsageError, match=r'names=\["mail.send"\]'):
        app.events.subscribe(names="mail.send")
    with pytest.raises(UsageError, match="offset"):
        app.events.subscribe(after="yesterday")


async def _follow(app: Stem) -> list[str]:
    seen: list[str] = []
    async with app.events.asubscribe(timeout=SOON) as events:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(events), 0.05)
        await asyncio.to_thread(enqueue, app, "a", "b", "c")
        async for event in events:
            seen.append(event.task_id)
            if len(seen) == 3:
                break
        offset = events.offset
    assert offset == await asyncio.to_thread(app.store.events.head)
    return seen


def test_an_async_subscription_that_was_cancelled_while_it_waited_loses_nothing(app: Stem) -> None:
    assert asyncio.run(_follow(app)) == ["a", "b", "c"]


def test_many_async_subscriptions_wait_at_once(app: Stem) -> None:
    async def follow() -> list[str]:
        opened = [app.events.asubscribe(timeout=SOON) for _ in range(40)]
        for each in opened:
            await each.__aenter__()
        await asyncio.to_thread(enqueue, app, "a")
        return [event.task_id for event in await asyncio.gather(*map(anext, opened))]

    assert asyncio.run(follow()) == ["a"] * 40
