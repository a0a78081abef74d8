"""Options of a task and of one call, merged into one checked plan."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypedDict

import msgspec

from stem.client.task.hints import option_meant
from stem.client.task.policy import (
    MAX_SECONDS,
    RetryOption,
    check_max_retries,
    check_travelling_retry,
    seconds,
)
from stem.core.decisions.retry import RetryStrategy
from stem.core.envelope import (
    Supersedes,
    check_headers,
    check_id,
    check_moment,
    check_priority,
    check_queue,
    check_sensitive,
)
from stem.core.errors import InvalidTask
from stem.core.settings.kinds import duration
from stem.core.text.encode import encode_json

UntilDone = Literal["until_done"]
Duration = float | timedelta | str  # seconds, or a text like "250ms", "30s", "5m", "2h", "1d"
Classes = type[BaseException] | tuple[type[BaseException], ...]

MAX_HEADERS_BYTES = 16 * 1024
MAX_META_BYTES = 64 * 1024
MAX_CONCURRENCY = 1_000_000


class TaskOptions(TypedDict, total=False):
    """Options of a task. None means not given."""

    name: str | None  # default: module and qualified name of the function
    aliases: Sequence[str] | None  # names it had before: calls under them run it
    queue: str | None
    max_retries: int | None
    retry: RetryOption | None
    soft_limit: Duration | None
    hard_limit: Duration | None
    retry_on: Classes | None  # only these are worth a retry
    no_retry_on: Classes | None  # these are not, whatever else says so
    max_concurrency: int | None  # running at a time, over the whole fleet
    concurrency_per: str | None  # a header: each of its values has places of its own
    rate_limit: str | None  # "5/s", "100/m"
    rate_burst: float | None  # starts saved up while there was nothing to do
    rate_per: str | None  # a header: each of its values has a rate of its own
    priority: int | None  # 0 (last) to 9 (first), default 5
    unique: UntilDone | Duration | None
    key: str | Sequence[str] | None  # arguments, or "header:NAME", that make calls the same; default: all arguments
    debounce: Duration | None  # run after this long without another call of the key; only the last one runs
    debounce_max: Duration | None  # run at the latest this long after the first call
    singleton: bool  # one at a time for each key, over the whole fleet; others wait
    cancel_running: bool  # the newest call of the key wins: earlier ones are cancelled, even if they run
    isolate: bool
    ignore_result: bool  # keep no value; the record has its state all the same
    at_most_once: bool  # never start it a second time, whatever becomes of its worker; so without retries
    engine: str | None  # what calls the function: "spark" gives it a session
    visibility_timeout: Duration | None
    sensitive: Sequence[str] | None  # arguments that nobody is shown: "card", or a path into one: "payment.cvv"


class CallOptions(TypedDict, total=False):
    """Options of one call; they override the task's. None means not given."""

    id: str | None  # makes the enqueue idempotent
    queue: str | None
    priority: int | None
    delay: Duration | None
    not_before: datetime | None  # with a time zone
    expires: Duration | datetime | None
    headers: Mapping[str, str] | None
    meta: Mapping[str, Any] | None
    max_retries: int | None
    retry: RetryOption | None
    soft_limit: Duration | None
    hard_limit: Duration | None
    unique: UntilDone | Duration | Literal[False] | None  # False: not unique, though the task is
    visibility_timeout: Duration | None
    sensitive: Sequence[str] | None  # besides those of the task
    add_to_parent: bool | None  # False: a call made inside a task does not name that task as its parent
    connection: object | None  # the caller's open transaction


class CallPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a push except its arguments and its moment; already checked.

    `unique`: "" is not unique, "until_done", or seconds.
    """

    id: str | None = None
    queue: str
    priority: int = 5
    tenant: str | None = None  # by a route; a call's own header counts before it
    is_broadcast: bool = False
    delay_seconds: float | None = None
    not_before: datetime | None = None
    expires_seconds: float | None = None
    expires_at: datetime | None = None
    headers: dict[str, str] = {}
    meta: dict[str, Any] = {}
    max_retries: int
    retry: RetryStrategy | None = None  # the call's own
    soft_limit: float | None = None  # the call's own
    hard_limit: float | None = None  # the call's own
    unique: UntilDone | float | Literal[""] = ""
    key: tuple[str, ...] | None = None  # None: all arguments
    supersedes: Supersedes | None = None
    debounce_max_seconds: float | None = None
    is_singleton: bool = False
    visibility_timeout: float | None = None
    sensitive: tuple[str, ...] = ()
    add_to_parent: bool = True
    connection: object | None = None


def planned(plan: CallPlan, options: Mapping[str, Any]) -> CallPlan:
    """Return the plan with these options applied. Raises InvalidTask."""
    changes: dict[str, Any] = {}
    for name, value in options.items():
        check = _CHECKS.get(name)
        if check is None:
            raise InvalidTask(f"There is no option {name!r}{option_meant(name, _CHECKS)}")
        if value is not None:
            changes.update(check(value))
    if "sensitive" in changes:
        changes["sensitive"] = check_sensitive((*plan.sensitive, *changes["sensitive"]))
    made = msgspec.structs.replace(plan, **changes)
    if made.delay_seconds is not None and made.not_before is not None:
        raise InvalidTask("A call has both delay and not_before; give one of them.")
    return made


def check_limits(soft: float | None, hard: float | None) -> None:
    if soft is not None and hard is not None and soft >= hard:
        raise InvalidTask(f"The soft limit of {soft:g} s is not below the hard limit of {hard:g} s; lower it.")


def check_concurrency(limit: Any, per: Any) -> None:
    if limit is None:
        if per is not None:
            raise InvalidTask("concurrency_per is given and max_concurrency is not; say how many may run at a time.")
        return
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_CONCURRENCY:
        raise InvalidTask(f"max_concurrency {limit!r} is not a whole number from 1 to {MAX_CONCURRENCY:,}.")
    _check_per("concurrency_per", per)


def check_rate(rate: Any, burst: Any, per: Any) -> None:
    if rate is None:
        for name, value in (("rate_burst", burst), ("rate_per", per)):
            if value is not None:
                raise InvalidTask(f"{name} is given and rate_limit is not; write it like rate_limit='5/s'.")
        return
    if burst is not None and (
        isinstance(burst, bool) or not isinstance(burst, int | float) or not 1 <= burst <= MAX_CONCURRENCY
    ):
        raise InvalidTask(f"rate_burst {burst!r} is not a number from 1 to {MAX_CONCURRENCY:,}.")
    _check_per("rate_per", per)


def _check_per(what: str, header: Any) -> None:
    if header is None:
        return
    try:
        check_headers({header: ""})
    except (InvalidTask, TypeError):
        raise InvalidTask(f"{what} is {header!r}; give the name of a header, like 'tenant'.") from None


def check_unique(value: Any) -> UntilDone | float | Literal[""]:
    if value is False:
        return ""
    if value == "until_done":
        return "until_done"
    if isinstance(value, str) and duration(value) is None:
        raise InvalidTask(f"unique is {value!r}; use 'until_done', a number of seconds, or a duration like '10m'.")
    return seconds("unique", value, above_zero=True)


def _check_not_before(value: Any) -> dict[str, Any]:
    return {"not_before": _moment(value, "not_before")}


def _check_expires(value: Any) -> dict[str, Any]:
    if isinstance(value, datetime):
        return {"expires_at": _moment(value, "expires"), "expires_seconds": None}
    return {"expires_seconds": seconds("expires", value, above_zero=True), "expires_at": None}


def _moment(value: Any, what: str) -> datetime:
    if not isinstance(value, datetime):
        raise InvalidTask(f"{what} is {value!r}; give a datetime with a time zone.")
    try:
        moment = check_moment(value, what)
    except OverflowError:
        moment = datetime.min.replace(tzinfo=UTC)
    if not 1970 <= moment.year < 1970 + MAX_SECONDS / (365 * 86400) + 100:
        raise InvalidTask(f"{what} {value.isoformat()} is not between 1970 and 2170.")
    return moment


def checked_headers(value: Any) -> dict[str, str]:
    """Raises InvalidTask."""
    if not isinstance(value, Mapping):
        raise InvalidTask(f"headers is of type {type(value).__name__}; give a dict of strings.")
    headers = check_headers(value)
    try:
        size = sum(len(name) + len(text.encode()) for name, text in headers.items())
    except UnicodeEncodeError:
        raise InvalidTask("A header holds characters that UTF-8 cannot carry; remove them.") from None
    if size > MAX_HEADERS_BYTES:
        raise InvalidTask(f"The headers take {size:,} bytes and the limit is {MAX_HEADERS_BYTES:,}; use arguments.")
    return headers


def checked_meta(value: Any) -> dict[str, Any]:
    """Return the meta as readers will see it, which is what is signed. Raises InvalidTask."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise InvalidTask("meta is not an object; give a dict with string keys.")
    encoded = encode_json(dict(value), what="meta", limit_bytes=MAX_META_BYTES)
    meta: dict[str, Any] = msgspec.json.decode(encoded)
    return meta


def _seconds_of(what: str, *, above_zero: bool) -> Callable[[Any], float]:
    return lambda value: seconds(what, value, above_zero=above_zero)


def _same(value: Any) -> Any:
    return value


def _field(name: str, check: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {name: check(value)}


_CHECKS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "id": _field("id", check_id),
    "queue": lambda value: {"queue": check_queue(value), "is_broadcast": False},  # which has queues of its own
    "priority": _field("priority", check_priority),
    "delay": _field("delay_seconds", _seconds_of("delay", above_zero=False)),
    "not_before": _check_not_before,
    "expires": _check_expires,
    "headers": _field("headers", checked_headers),
    "meta": _field("meta", checked_meta),
    "max_retries": _field("max_retries", check_max_retries),
    "retry": _field("retry", check_travelling_retry),
    "soft_limit": _field("soft_limit", _seconds_of("soft_limit", above_zero=True)),
    "hard_limit": _field("hard_limit", _seconds_of("hard_limit", above_zero=True)),
    "unique": _field("unique", check_unique),
    "visibility_timeout": _field("visibility_timeout", _seconds_of("visibility_timeout", above_zero=True)),
    "sensitive": _field("sensitive", check_sensitive),
    "add_to_parent": _field("add_to_parent", bool),
    "connection": _field("connection", _same),
}
