"""The store on a Redis server, shared by a fleet. `docs/redis-keys.md` lists what it keeps there."""

from functools import partial

import msgspec

from stem.backends.redis.broker import RedisBroker
from stem.backends.redis.deadletters import RedisDeadLetters
from stem.backends.redis.events import RedisEvents
from stem.backends.redis.heartbeats import RedisHeartbeats
from stem.backends.redis.history import RedisHistory
from stem.backends.redis.limiter import RedisLimiter
from stem.backends.redis.link import Link
from stem.backends.redis.locks import RedisLocks
from stem.backends.redis.mail import RedisMail
from stem.backends.redis.results import RedisResults
from stem.backends.redis.revokes import RedisRevokes
from stem.backends.redis.rollups import RedisRollups
from stem.backends.redis.server import check_schema, check_version
from stem.backends.redis.space import Space
from stem.backends.redis.staging import PROMOTION_SECONDS, RedisStaging
from stem.backends.redis.upkeep import RedisUpkeep
from stem.contracts.store import Capabilities, Store
from stem.core.config import Settings, masked

CAPABILITIES = Capabilities(is_durable=True, crosses_processes=True, crosses_machines=True, joins_transactions=False)


def connect(url: str, settings: Settings) -> Store:
    """Raises ConfigError, StoreUnavailable, or StoreRefused (also where the server is too old)."""
    link = Link(url, settings)
    check_version(link)
    space = Space(link, settings)
    check_schema(space)
    patient = msgspec.structs.replace(settings, timeout_seconds=PROMOTION_SECONDS)
    return Store(
        url=masked(url),
        namespace=settings.namespace,
        capabilities=CAPABILITIES,
        broker=RedisBroker(space),
        deadletters=RedisDeadLetters(space),
        results=RedisResults(space),
        events=RedisEvents(space),
        history=RedisHistory(space),
        revokes=RedisRevokes(space),
        locks=RedisLocks(space),
        limiter=RedisLimiter(space),
        heartbeats=RedisHeartbeats(space),
        mail=RedisMail(space),
        staging=RedisStaging(space, partial(Link, url, patient)),
        rollups=RedisRollups(space),
        upkeep=RedisUpkeep(space),
    )
