"""Store everything on a Redis server, shared by a fleet. `docs/redis-keys.md` lists the keys."""

from functools import partial

import msgspec

from stem.backends.redis.broker import RedisBroker
from stem.backends.redis.connection.connections import RedisClient
from stem.backends.redis.connection.server_info import check_schema, check_version
from stem.backends.redis.deadletters import RedisDeadLetters
from stem.backends.redis.events import RedisEvents
from stem.backends.redis.heartbeats import RedisHeartbeats
from stem.backends.redis.history import RedisHistory
from stem.backends.redis.limiter import RedisLimiter
from stem.backends.redis.locks import RedisLocks
from stem.backends.redis.mail import RedisMail
from stem.backends.redis.maintenance import RedisUpkeep
from stem.backends.redis.namespace import RedisNamespace
from stem.backends.redis.results import RedisResults
from stem.backends.redis.revokes import RedisRevokes
from stem.backends.redis.rollups import RedisRollups
from stem.backends.redis.schedules import RedisSchedules
from stem.backends.redis.staging import PROMOTION_SECONDS, RedisStaging
from stem.backends.redis.steps import RedisSteps
from stem.backends.redis.task_logs import RedisTaskLogs
from stem.contracts.store import Capabilities, Store
from stem.core.settings.app import Settings, masked

CAPABILITIES = Capabilities(is_durable=True, crosses_processes=True, crosses_machines=True, joins_transactions=False)


def connect(url: str, settings: Settings) -> Store:
    """Open the store. Raises ConfigError, StoreUnavailable, or StoreRefused (also if the server is too old)."""
    client = RedisClient(url, settings)
    check_version(client)
    namespace = RedisNamespace(client, settings)
    check_schema(namespace)
    patient = msgspec.structs.replace(settings, timeout_seconds=PROMOTION_SECONDS)
    return Store(
        url=masked(url),
        namespace=settings.namespace,
        capabilities=CAPABILITIES,
        broker=RedisBroker(namespace),
        deadletters=RedisDeadLetters(namespace),
        results=RedisResults(namespace),
        events=RedisEvents(namespace),
        history=RedisHistory(namespace),
        revokes=RedisRevokes(namespace),
        locks=RedisLocks(namespace),
        limiter=RedisLimiter(namespace),
        heartbeats=RedisHeartbeats(namespace),
        mail=RedisMail(namespace),
        staging=RedisStaging(namespace, partial(RedisClient, url, patient)),
        rollups=RedisRollups(namespace),
        schedules=RedisSchedules(namespace),
        steps=RedisSteps(namespace),
        task_logs=RedisTaskLogs(namespace),
        upkeep=RedisUpkeep(namespace),
    )
