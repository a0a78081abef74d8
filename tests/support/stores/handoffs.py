"""Workers that wait, and what they are handed."""

import psycopg
import redis

from stem.backends.handoff import Handoff
from stem.backends.postgres.notify.notifier import channel_for, channel_of
from stem.contracts.store import Store
from support.builders import a_push
from support.until import until

LEASE = 60.0


def wait_for_handoff(
    store: Store, queues: tuple[str, ...] = ("default",), *, room: int = 2, lease: float = LEASE, seconds: float = 0.05
) -> bool:
    return store.broker.wait_for_handoff(queues, room=lambda: room, lease_seconds=lease, timeout_seconds=seconds)


def register(store: Store, *, queue: str = "default", room: int = 2, lease: float = LEASE) -> None:
    """It may be handed something, and hears of it when it waits again."""

    def is_registered() -> bool:
        assert not wait_for_handoff(store, (queue,), room=room, lease=lease)
        return handoff_of(store)._registration is not None

    until(is_registered)


def push_each(store: Store, *names: str) -> None:
    for name in names:
        store.broker.push([a_push(name)])


def handoff_of(store: Store) -> Handoff:
    handoff = store.broker._handoff  # type: ignore[attr-defined]
    assert isinstance(handoff, Handoff)
    return handoff


def registrations(url: str, namespace: str) -> int:
    """The number of registered workers that have room."""
    if url.startswith("redis"):
        with redis.Redis.from_url(url) as client:
            return int(client.zcard(f"stem:{{{namespace}}}:seats:default"))
    with psycopg.connect(url) as conn:
        ((count,),) = conn.execute(
            "SELECT count(*) FROM stem.handoffs WHERE ns = %s AND free_slots > 0", [namespace]
        ).fetchall()
        return int(count)


def listeners(url: str, namespace: str) -> int:
    """How many the server knows to listen for work."""
    if url.startswith("redis"):
        with redis.Redis.from_url(url) as client:
            ((_, count),) = client.pubsub_numsub(f"stem:{{{namespace}}}:wake:default")
            return int(count)
    said = f'LISTEN "{channel_for(channel_of("stem", namespace), "work")}'
    with psycopg.connect(url) as conn:
        query = "SELECT count(*) FROM pg_stat_activity WHERE starts_with(query, %s)"
        ((count,),) = conn.execute(query, [said]).fetchall()
        return int(count)
