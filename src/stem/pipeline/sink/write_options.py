"""Check the options of `df.write.format("stem")`, and decide which column is what, before any store is opened.

The rule: `task`, `queue`, `priority`, `notBefore` and `headers` are columns of these names where the DataFrame has them;
`queueColumn` (and so on) names another one, or none if it is empty. The option `queue` is the value for rows whose column is
null or absent. Every other column is an argument of the task. Rows are merged only where the option `key` (or `keyColumn`)
names the column to merge them by: a column that happens to be called `key`, as Kafka's is, merges nothing.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from stem.client.app import Stem
from stem.client.loading import load
from stem.client.stores import check_url, connect, sqlite_path, with_absolute_paths
from stem.contracts.staging import MAX_NAME
from stem.contracts.store import Store
from stem.core.errors import UsageError
from stem.core.settings.app import Settings
from stem.core.settings.setting import did_you_mean
from stem.runtime.configfile import configured

CONTROLS = ("task", "queue", "priority", "notBefore", "headers", "key")
_ALSO = {"notBefore": "not_before"}  # as a DataFrame might spell it
OPTIONS = (
    "url", "namespace", "app", "job", *CONTROLS, *(f"{name}Column" for name in CONTROLS), "argsColumn", "onBadRow", "rejects",
)  # fmt: skip

_OF_SPARK = ("checkpointlocation", "queryname")  # Spark passes its own options of a stream on


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a write, as they are sent to executors."""

    settings: Settings
    app: str | None
    job: str | None  # None: chosen when the write begins
    defaults: dict[str, Any]  # of call options that a row does not set
    columns: dict[str, str]  # the column of each control
    arguments: tuple[str, ...]
    args_column: str | None
    on_bad_row: Literal["fail", "reject"]
    rejects: str | None

    def open_app(self) -> Stem:
        """The app of the write; an app without tasks if it names none. Raises ConfigError."""
        return Stem(settings=self.settings) if self.app is None else load(self.app)

    def open(self) -> Store:
        """Raises StoreUnavailable, StoreRefused, UsageError."""
        url = self.settings.broker_url
        path = sqlite_path(url)
        if path is not None and not path.exists():  # creating one would write where no worker reads
            raise UsageError(f"{path} is not there; where Spark runs on several machines, use redis or postgresql.")
        return connect(url, self.settings)


def write_options(options: Mapping[str, str], names: Sequence[str]) -> WriteOptions:
    """The options for a DataFrame with these columns. Raises UsageError, ConfigError."""
    _check_names(options)
    columns = {name: column for name in CONTROLS if (column := _column(name, options, names)) is not None}
    if options.get("task") is None and "task" not in columns:
        raise UsageError('The write names no task; add .option("task", "module.function"), or a column `task`.')
    args_column = options.get("argsColumn")
    rest = tuple(name for name in names if name not in columns.values())
    if args_column is not None:
        _check_column("argsColumn", args_column, names)
        if extra := [name for name in rest if name != args_column]:
            raise UsageError(f"Column {extra[0]!r} is no argument beside argsColumn; drop it, or leave argsColumn out.")
    on_bad_row, rejects = _bad_rows(options)
    return WriteOptions(
        settings=settings_of(options),
        app=options.get("app"),
        job=_job(options),
        defaults=_defaults(options),
        columns=columns,
        arguments=() if args_column is not None else rest,
        args_column=args_column,
        on_bad_row=on_bad_row,
        rejects=rejects,
    )


def check_against_app(write: WriteOptions) -> None:
    """Check the task and the call options that hold for all rows. Raises UnknownTask, InvalidTask."""
    app = write.open_app()
    name = write.defaults.get("task")
    if name is None:
        return
    sender = app.sender(name, check=write.app is not None)
    sender.options(**{key: value for key, value in write.defaults.items() if key != "task"})
    if sender.definition.plan.unique != "":
        raise UsageError(f"Task {name} is unique, and unique calls cannot be staged; enqueue them one by one.")
    if write.args_column is None and "task" not in write.columns:
        sender.bind_object(dict.fromkeys(write.arguments))


def moment(value: Any) -> Any:
    """Parse a text; other values are checked later."""
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise UsageError(f"notBefore {value!r} is not a moment; write it like 2030-01-31T09:00:00Z.") from None


def headers(value: Any) -> Any:
    """Decode a text as JSON; other values are checked later."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value, type=dict[str, str])
    except msgspec.MsgspecError as error:
        raise UsageError(f"""headers are not a JSON object of texts ({error}); write '{{"tenant": "x"}}'.""") from None


def _check_names(options: Mapping[str, str]) -> None:
    known = {name.lower(): name for name in OPTIONS}
    for key in options:
        if key.lower() in _OF_SPARK:
            continue
        if key.lower() == "path":
            raise UsageError('A store has no path; call .save() without one, and name the store by .option("url", …).')
        if key.lower() not in known:
            raise UsageError(
                f"{key!r} is not an option of a write; the options are {', '.join(OPTIONS)}{did_you_mean(key, known)}"
            )


def _column(name: str, options: Mapping[str, str], names: Sequence[str]) -> str | None:
    option = f"{name}Column"
    chosen = options.get(option, options.get("key", "") if name == "key" else None)
    if chosen is not None:
        return _check_column(option, chosen, names) if chosen else None
    return next((each for each in (name, _ALSO.get(name, name)) if each in names), None)


def _check_column(option: str, column: str, names: Sequence[str]) -> str:
    if column not in names:
        found = did_you_mean(column, {each: each for each in names})
        raise UsageError(f"{option} is {column!r}, which is no column of the DataFrame{found}")
    return column


def _defaults(options: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {key: options[key] for key in ("task", "queue") if key in options}
    if "priority" in options:
        text = options["priority"]
        if not text.strip().isdecimal():
            raise UsageError(f"priority {text!r} is not a whole number from 0 (last) to 9 (first).")
        found["priority"] = int(text)
    if "notBefore" in options:
        found["not_before"] = moment(options["notBefore"])
    if "headers" in options:
        found["headers"] = headers(options["headers"])
    return found


def _bad_rows(options: Mapping[str, str]) -> tuple[Literal["fail", "reject"], str | None]:
    wanted, rejects = options.get("onBadRow", "fail"), options.get("rejects")
    if wanted == "fail" and rejects is None:
        return "fail", None
    if wanted == "reject" and rejects:
        return "reject", rejects if "://" in rejects else os.path.abspath(rejects)
    if wanted == "reject":
        raise UsageError('onBadRow=reject needs a place for the bad rows; add .option("rejects", "path/of/a/table").')
    if wanted == "fail":
        raise UsageError("rejects is given and onBadRow is not reject; add onBadRow=reject, or leave rejects out.")
    raise UsageError(f"onBadRow {wanted!r} is neither fail nor reject; use one of these.")


def _job(options: Mapping[str, str]) -> str | None:
    job = options.get("job")
    if job is not None and not (1 <= len(job) <= MAX_NAME - 50 and job.isprintable()):
        raise UsageError(f"job {job!r} is not 1 to {MAX_NAME - 50} printable characters.")
    return job


def settings_of(options: Mapping[str, str]) -> Settings:
    """The settings of the store that a write goes to. Raises UsageError, ConfigError."""
    app = options.get("app")
    here = load(app).settings if app is not None else configured(os.environ)
    changes = {
        field: options[key] for key, field in (("url", "broker_url"), ("namespace", "namespace")) if key in options
    }
    # Executors sign calls and send no control commands.
    control = msgspec.structs.replace(here.control, keys="", token="")
    settings = msgspec.structs.replace(
        here, control=control, **changes, **({"results_url": None} if "url" in options else {})
    )
    if check_url(settings.broker_url) == "memory":
        raise UsageError(
            "memory:// lives in one process, and Spark writes from others; use sqlite, redis or postgresql."
        )
    if settings.results_are_apart:
        raise UsageError(
            "Spark writes to a store that has tasks and results together, and results_url names another one; unset it."
        )
    return with_absolute_paths(settings)
