"""Read the server's version and settings, and find those that endanger a promise."""

import re
from typing import Any

from stem.backends.redis.connection.connections import RedisClient
from stem.backends.redis.namespace import RedisNamespace
from stem.core.errors import StoreRefused

OLDEST = (6, 2)
SCHEMA = 1


def check_version(client: RedisClient) -> None:
    version = facts(client, "server").get("redis_version", "")
    if not is_new_enough(version):
        raise StoreRefused(
            f"Redis at {client.place} has version {version or 'unknown'} and Stem needs 6.2 or later; upgrade the server."
        )


def is_new_enough(version: str) -> bool:
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= OLDEST


def check_schema(namespace: RedisNamespace) -> None:
    """Keys of a later form are not ours to change."""
    numbers = namespace.key("numbers")
    namespace.client.call("HSETNX", numbers, "schema", SCHEMA)
    found = int(namespace.client.call("HGET", numbers, "schema"))
    if found > SCHEMA:
        raise StoreRefused(
            f"Namespace keys {namespace.prefix!r} on Redis at {namespace.client.place} were written by a newer Stem "
            f"(schema {found}, this one knows {SCHEMA}); upgrade this one."
        )


def facts(client: RedisClient, section: str) -> dict[str, str]:
    text: bytes = client.call("INFO", section)
    pairs = (line.partition(":") for line in text.decode().splitlines() if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def warnings(client: RedisClient) -> list[str]:
    """Sentences, each with a remedy."""
    memory, persistence, replication = (facts(client, each) for each in ("memory", "persistence", "replication"))
    found = []
    policy = memory.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found.append(f"Redis may evict tasks when it is full (maxmemory-policy {policy}); set it to noeviction.")
    if persistence.get("aof_enabled") != "1":
        if _saves(client):
            found.append("Redis loses what came since its last snapshot when it crashes; set appendonly yes.")
        else:
            found.append("Redis keeps its data in memory only and loses all tasks when it stops; set appendonly yes.")
    for field, what in (("aof_last_write_status", "append-only file"), ("rdb_last_bgsave_status", "snapshot")):
        if persistence.get(field, "ok") != "ok":
            found.append(f"Redis could not write its {what}; see its log and its disk.")
    if replication.get("role", "master") != "master":
        found.append("Redis is a replica, which takes no changes; point the URL at the primary.")
    return found


def _saves(client: RedisClient) -> bool:
    """Whether snapshots are configured. A server that does not tell is given the benefit of the doubt."""
    try:
        reply: list[Any] = client.call("CONFIG", "GET", "save")
    except StoreRefused:
        return True
    return bool(reply and reply[-1])
