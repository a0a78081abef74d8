"""A server that lost its last second must not let two holders in."""

import msgspec
import redis

from stem.backends import connect
from stem.core.delivery import Ending
from stem.core.outcome import Done
from stem.core.settings.app import Settings
from support.builders import a_push
from support.servers import RedisServer


def test_a_fence_is_not_given_out_twice_though_the_counter_fell_back(redis_server: RedisServer, namespace: str) -> None:
    store = connect(redis_server.url, Settings(namespace=namespace))
    server = redis.Redis(port=redis_server.port)
    try:
        store.broker.push([a_push(queue="q")])
        before = {key: server.dump(key) for key in server.scan_iter(f"stem:{{{namespace}}}:*")}
        [old] = store.broker.claim(["q"], limit=1, lease_seconds=60)
        for key in list(server.scan_iter(f"stem:{{{namespace}}}:*")):
            server.delete(key)
        for key, value in before.items():
            server.restore(key, 0, value)  # type: ignore[arg-type]
        [new] = store.broker.claim(["q"], limit=1, lease_seconds=60)
        assert new.lease.fence > old.lease.fence
        assert store.broker.settle([Ending(old.lease, Done(msgspec.Raw(b"1")), 0.0)], worker="old") == [old.lease]
    finally:
        server.close()
        store.upkeep.close()
