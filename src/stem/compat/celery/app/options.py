"""Celery's options of a call as Stem's."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from stem.compat.celery.app.conf import CeleryConf, own_broker_url
from stem.compat.celery.codec import to_wire
from stem.compat.celery.refused import CALL, NotBridged

META = "celery"  # in the meta of a call: headers that are no text, the group, what a retry was asked for
LAST_PRIORITY = 9

# Options that need nothing with Stem, or that other parts read.
_NOTHING = frozenset(
    {
        "compression", "retry", "retry_policy", "ignore_result", "shadow", "link", "link_error", "group_id", "chord",
        "group_index", "root_id", "parent_id", "retries", "reply_to", "argsrepr", "kwargsrepr", "chain", "origin",
        "immutable", "subtask_type", "task_type", "interval", "timeout", "visitor", "replaced_task_nesting", "result_cls",
    }
)  # fmt: skip


def call_options(conf: CeleryConf, options: Mapping[str, Any]) -> dict[str, Any]:
    """Stem's options of one call. Raises NotBridged."""
    made: dict[str, Any] = {}
    for name, value in options.items():
        if name in CALL and value is not None:
            raise NotBridged(f"The option {name} is not part of the Celery bridge. {CALL[name]}")
        if name == "serializer" and value not in (None, "json", "application/json"):
            raise NotBridged(f"serializer is {value!r}, and Stem carries JSON only; set it to 'json'.")
        if value is not None and name in _WRITE:
            made.update(_WRITE[name](conf, value))
        elif name not in _NOTHING and name not in CALL and name not in _WRITE and name != "serializer":
            raise NotBridged(f"There is no option {name!r} of a call; leave it out, or put it into headers=.")
    return made


def urgency(conf: CeleryConf, priority: int | None) -> int:
    """Stem's priority: 9 is first. On Redis Celery runs 0 first, on other brokers 9."""
    value = min(max(int(priority or 0), 0), LAST_PRIORITY)
    return LAST_PRIORITY - value if (own_broker_url(conf) or "redis").startswith("redis") else value


def zone(conf: CeleryConf) -> Any:
    name = conf["timezone"]
    return ZoneInfo(str(name)) if name else UTC


def aware(conf: CeleryConf, moment: datetime) -> datetime:
    """A moment without a time zone is of the app's."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone(conf))


def _countdown(_conf: CeleryConf, seconds: Any) -> dict[str, Any]:
    seconds = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
    return {"delay": max(0.0, seconds)} if seconds else {}


def _eta(conf: CeleryConf, moment: Any) -> dict[str, Any]:
    moment = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return {"not_before": aware(conf, moment)}


def _expires(conf: CeleryConf, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return {"expires": aware(conf, value)}
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    return {"expires": seconds if seconds > 0 else datetime.now(UTC)}


def _headers(_conf: CeleryConf, headers: Any) -> dict[str, Any]:
    texts = {name: value for name, value in headers.items() if isinstance(value, str)}
    rest = {name: to_wire(value) for name, value in headers.items() if not isinstance(value, str)}
    return {"headers": texts, "meta": {META: {"headers": rest}}} if rest else {"headers": texts}


def _queue(_conf: CeleryConf, queue: Any) -> dict[str, Any]:
    return {"queue": str(getattr(queue, "name", queue))}  # kombu's Queue has a name


_WRITE: dict[str, Any] = {
    "task_id": lambda _conf, value: {"id": value},
    "countdown": _countdown,
    "eta": _eta,
    "expires": _expires,
    "queue": _queue,
    "priority": lambda conf, value: {"priority": urgency(conf, value)},
    "headers": _headers,
    "time_limit": lambda _conf, value: {"hard_limit": float(value)},
    "soft_time_limit": lambda _conf, value: {"soft_limit": float(value)},
    "add_to_parent": lambda _conf, value: {"add_to_parent": bool(value)},
}
