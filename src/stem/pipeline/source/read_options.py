"""Check the options of `spark.read.format("stem")` before any store is opened."""

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from stem.client.stores import check_url, connect, sqlite_path, with_absolute_paths
from stem.contracts.history import HistoryFilter
from stem.contracts.store import Store
from stem.core.errors import UsageError
from stem.core.lifecycle import State
from stem.core.settings.app import Settings
from stem.core.settings.kinds import duration
from stem.core.settings.setting import did_you_mean
from stem.pipeline import schemas
from stem.runtime.configfile import configured

OPTIONS = (
    "url", "namespace", "table", "queue", "state", "name", "task", "since", "until", "partitions",
    "startingOffset", "maxEventsPerTrigger", "failOnDataLoss",
)  # fmt: skip
STREAMS = ("events", "attempts")
_OF_STREAMS = ("startingOffset", "maxEventsPerTrigger", "failOnDataLoss")

# The filters of each table.
_FILTERS = {
    "events": {"queue", "name", "since", "until"},
    "tasks": {"queue", "state", "name", "since", "until"},
    "attempts": {"queue", "name", "since", "until"},
    "dead_letters": {"queue", "name", "since", "until"},
    "heartbeats": set[str](),
    "schedules": set[str](),
    "canvases": set[str](),
}

DEFAULT_MAX_EVENTS = 100_000
_MOST_PARTITIONS = 10_000
_FEW_PARTITIONS = 8  # by default: each is a Python process that reads hundreds of thousands of rows per second
EARLIEST, LATEST = "earliest", "latest"


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a read, as they are sent to the planner and to executors."""

    settings: Settings  # only what connecting to the store needs
    table: str
    queue: str | None = None
    state: State | None = None
    name: str | None = None
    since: float | datetime | None = None  # seconds before the store's now, or a moment
    until: float | datetime | None = None
    partitions: int
    starting: str = EARLIEST  # or latest, or an offset
    max_events: int = DEFAULT_MAX_EVENTS
    fails_on_loss: bool = True  # whether a stream fails if retention has pruned events that it has not read

    def where(self, now_seconds: float) -> HistoryFilter:
        return HistoryFilter(
            state=self.state,
            queue=self.queue,
            name=self.name,
            since=_moment(self.since, now_seconds),
            until=_moment(self.until, now_seconds),
        )

    def open(self) -> Store:
        """Raises StoreUnavailable, StoreRefused, UsageError."""
        _check_reachable(self.settings.broker_url)
        return connect(self.settings.broker_url, self.settings)


def table_of(options: Mapping[str, str]) -> str:
    """The table that the options name. Raises UsageError for an unknown table or option."""
    _check_names(options)
    table = options.get("table", "events")
    if table not in schemas.SHAPES:
        known = {name: name for name in schemas.SHAPES}
        raise UsageError(f"There is no table {table!r}; the tables are {', '.join(known)}{did_you_mean(table, known)}")
    return table


def read_options(options: Mapping[str, str], *, is_stream: bool = False) -> ReadOptions:
    """Raises UsageError, ConfigError."""
    table = table_of(options)
    if is_stream and table not in STREAMS:
        raise UsageError(
            f"{table} cannot be streamed, because only a log can; use spark.read, or table events or attempts."
        )
    chosen = {key: options[key] for key in (*_FILTERS["tasks"], "task") if key in options}
    if "task" in chosen:
        chosen.setdefault("name", chosen.pop("task"))
    for key in chosen:
        if key not in _FILTERS[table]:
            allowed = f"use {', '.join(sorted(_FILTERS[table]))}" if _FILTERS[table] else "leave it out"
            raise UsageError(f"{table} cannot be chosen by {key!r}; {allowed}.")
    if not is_stream and (wrong := next((key for key in _OF_STREAMS if key in options), None)):
        raise UsageError(f"{wrong} is for spark.readStream; leave it out, or choose by since and until.")
    return ReadOptions(
        settings=_settings(options),
        table=table,
        queue=chosen.get("queue"),
        name=chosen.get("name"),
        state=_state(chosen.get("state")),
        since=_when("since", chosen.get("since"), is_fixed=is_stream),
        until=_when("until", chosen.get("until"), is_fixed=is_stream),
        partitions=_whole(options, "partitions", _MOST_PARTITIONS) or min(os.cpu_count() or 1, _FEW_PARTITIONS),
        starting=options.get("startingOffset", EARLIEST),
        max_events=_whole(options, "maxEventsPerTrigger", 10**9) or DEFAULT_MAX_EVENTS,
        fails_on_loss=_whether(options, "failOnDataLoss"),
    )


def _check_names(options: Iterable[str]) -> None:
    known = {name.lower(): name for name in OPTIONS}
    for key in options:
        if key.lower() == "path":
            raise UsageError('A store has no path; call .load() without one, and name the store by .option("url", …).')
        if key.lower() not in known:
            raise UsageError(
                f"{key!r} is not an option of a read; the options are {', '.join(OPTIONS)}{did_you_mean(key, known)}"
            )


def _settings(options: Mapping[str, str]) -> Settings:
    """Only what a reader needs of the environment and stem.yaml: no keys, no tokens."""
    here = configured(os.environ)
    wanted = Settings(
        broker_url=options.get("url", here.broker_url),
        namespace=options.get("namespace", here.namespace),
        timeout_seconds=here.timeout_seconds,
        retention=here.retention,
        tls=here.tls,
    )
    if check_url(wanted.broker_url) == "memory":
        raise UsageError(
            "memory:// lives in one process, and Spark reads from others; use sqlite, redis or postgresql."
        )
    return with_absolute_paths(wanted)


def _check_reachable(url: str) -> None:
    """A read creates no store: an SQLite file that does not exist is on another machine, or misspelt."""
    path = sqlite_path(url)
    if path is not None and not path.exists():
        raise UsageError(
            f"{path} is not there; correct the url, or, where Spark runs on several machines, use redis or postgresql."
        )


def _state(text: str | None) -> State | None:
    if text is None:
        return None
    if text not in set(State):
        known = {state.value: state.value for state in State}
        raise UsageError(f"{text!r} is not a state; the states are {', '.join(known)}{did_you_mean(text, known)}")
    return State(text)


def _when(option: str, text: str | None, *, is_fixed: bool) -> float | datetime | None:
    if text is None:
        return None
    seconds = duration(text)
    if seconds is not None and is_fixed:  # a batch that is repeated must be the same
        raise UsageError(f"{option} {text!r} counts back from a now that moves with the stream; give it a moment.")
    if seconds is not None:
        return seconds
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is neither a duration like 24h nor a moment like 2030-01-31T09:00:00Z; write one of these."
        ) from None
    if moment.tzinfo is None:
        raise UsageError(f"{option} {text!r} has no time zone; add Z or an offset such as +02:00.")
    return moment.astimezone(UTC)


def _moment(value: float | datetime | None, now_seconds: float) -> datetime | None:
    if isinstance(value, datetime) or value is None:
        return value
    return datetime.fromtimestamp(now_seconds, UTC) - timedelta(seconds=value)


def _whether(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "true").lower()
    if text not in ("true", "false"):
        raise UsageError(f"{name} is {text!r}; use true or false.")
    return text == "true"


def _whole(options: Mapping[str, str], name: str, most: int) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise UsageError(f"{name} is {text!r}; use a whole number from 1 to {most:,}.")
    return int(text)
