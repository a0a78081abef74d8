"""Settings from a mapping of environment variables: frozen, checked once, then passed down."""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from stem.core.errors import ConfigError
from stem.core.loopback import is_loopback
from stem.core.masking import MASK, is_secret, masked_keys, masked_options, masked_path, masked_text
from stem.core.masking import masked as masked
from stem.core.option import (
    NAMES,
    SWITCH,
    TEXT,
    Kind,
    Option,
    defaults,
    number,
    read_environment,
    seconds,
    size_up_to,
    whole,
)
from stem.core.place import place

DEFAULT_URL = "sqlite:///stem.db"
DEFAULT_LAKE = "stem-lake"
CONTROL_KEYS = "STEM_CONTROL_KEYS"

# Beyond these some store's own numbers end.
MAX_TIMEOUT_SECONDS = 86400
MAX_RETENTION_SECONDS = 100 * 365 * 86400
MAX_ARGS_BYTES = 256 * 1024 * 1024
MAX_EVENTS_COUNT = 10**12

_DRIVER = re.compile(r"^(\w+)\+\w+:")
TRANSPORTS = frozenset({"broker", "broadcast", "http", "polling"})

_ALLOWED = re.compile(r"((\*\.)?[A-Za-z0-9][A-Za-z0-9.\-]*|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?", re.ASCII)
_LEAST_TOKEN = 16  # characters; a shorter one can be guessed by whoever may try for long enough
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}", re.ASCII)


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long the past is kept. Both bounds on events hold."""

    results_seconds: float = 7 * 86400.0
    events_seconds: float = 7 * 86400.0
    events_count: int = 1_000_000


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """TLS for network stores. The files are paths; nothing here is secret."""

    ca_file: PurePath | None = None
    cert_file: PurePath | None = None
    key_file: PurePath | None = None
    verify: bool = True


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """How operators reach workers. Names that are None follow `Settings.worker_namespace` and `control_namespace`."""

    namespace: str | None = None
    worker_namespace: str | None = None
    timeout_seconds: float = 5.0
    poll_seconds: float = 5.0
    commands_per_second: float = 10.0
    transports: tuple[str, ...] = ("broker",)  # in the order in which an asker tries them
    http: str | None = None  # host:port of a worker's own endpoint
    http_allow: tuple[str, ...] = ()  # which endpoints an asker may send its token to; none: see http_allowed.py
    token: str = ""  # what that endpoint asks for
    keys: str = ""  # as keys.Keyring.parse reads it; none: `Settings.signing_keys` serve here, too
    cert_file: PurePath | None = None
    key_file: PurePath | None = None
    ca_file: PurePath | None = None  # whose client certificates it takes

    def __repr__(self) -> str:
        return _shown(self)


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """Where Spark runs, and where the lake lies. Neither master nor remote: embedded."""

    master: str | None = None
    remote: str | None = None  # of Spark Connect
    lake: str = DEFAULT_LAKE
    conf: dict[str, str] = {}

    def __repr__(self) -> str:
        return _shown(self)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    broker_url: str = DEFAULT_URL
    results_url: str | None = None  # None: results live with the broker
    revokes_url: str | None = None  # None: revokes live where results do
    namespace: str = "stem"
    timeout_seconds: float = 5.0  # deadline of every network call
    max_args_bytes: int = 1024 * 1024
    max_result_bytes: int | None = None  # None: as large as arguments
    retention: Retention = Retention()
    tls: Tls = Tls()
    postgres_owners: tuple[str, ...] = ()  # roles, besides our own, whose schema and functions are used
    fair_share: bool = False  # tenants wait apart, and are served in turn
    signing_keys: str = ""  # as keys.Keyring.parse reads it
    signature_max_age_seconds: float | None = None  # of tasks, counted from when they are due; None: any age
    control: Control = Control()
    pipeline: Pipeline = Pipeline()

    def __post_init__(self) -> None:
        for name in ("broker_url", "results_url", "revokes_url"):
            if isinstance(url := getattr(self, name), str) and "+" in url:
                msgspec.structs.force_setattr(self, name, without_driver(url))

    def __repr__(self) -> str:
        """Without what is secret, for it may end in a log."""
        results = None if self.results_url is None else masked(self.results_url)
        return f"Settings(broker_url={masked(self.broker_url)!r}, results_url={results!r}, namespace={self.namespace!r}, …)"

    @property
    def results_are_apart(self) -> bool:
        """A relative path and an absolute one count as two: see `backends.placed`."""
        return self.results_url is not None and place(self.results_url) != place(self.broker_url)

    @property
    def revokes_place(self) -> str:
        """The URL, or the path of a file, where revokes are kept."""
        return self.revokes_url or self.results_url or self.broker_url

    @property
    def control_keys(self) -> str:
        """What signs commands, replies, revokes and pauses."""
        return self.control.keys or self.signing_keys

    @property
    def worker_namespace(self) -> str:
        """Under which workers beat."""
        return self.control.worker_namespace or self.namespace

    @property
    def control_namespace(self) -> str:
        """Under which workers are spoken to."""
        return self.control.namespace or self.worker_namespace


def from_environment(env: Mapping[str, str]) -> Settings:
    """Flags and code override what this returns (with `msgspec.structs.replace`). Raises ConfigError."""
    reading = read_environment(OPTIONS, env)
    if reading.errors:
        raise ConfigError(reading.errors[0])
    return settings_of(defaults(OPTIONS) | reading.values)


def settings_of(values: Mapping[str, Any]) -> Settings:
    """From a value for each of the options, by path."""
    return Settings(
        broker_url=values["broker.url"],
        results_url=values["results.url"],
        revokes_url=values["revokes.url"],
        namespace=values["namespace"],
        timeout_seconds=values["broker.timeout"],
        max_args_bytes=values["maxArgsBytes"],
        max_result_bytes=values["maxResultBytes"],
        retention=Retention(
            results_seconds=values["results.ttl"],
            events_seconds=values["events.ttl"],
            events_count=values["events.count"],
        ),
        tls=Tls(
            ca_file=_path(values["tls.caCert"]),
            cert_file=_path(values["tls.clientCert"]),
            key_file=_path(values["tls.clientKey"]),
            verify=values["tls.verify"],
        ),
        postgres_owners=values["postgres.owners"],
        fair_share=values["fairShare"],
        signing_keys=values["signing.keys"],
        signature_max_age_seconds=values["signing.maxAge"],
        control=Control(
            namespace=values["control.namespace"],
            worker_namespace=values["worker.namespace"],
            timeout_seconds=values["control.timeout"],
            poll_seconds=values["control.pollInterval"],
            commands_per_second=values["control.commandsPerSecond"],
            transports=tuple(values["control.transports"].split(",")),
            http=values["control.http"],
            http_allow=values["control.httpAllow"],
            token=values["control.token"],
            keys=values["control.keys"] or "",
            cert_file=_path(values["control.cert"]),
            key_file=_path(values["control.key"]),
            ca_file=_path(values["control.ca"]),
        ),
        pipeline=Pipeline(
            master=values["pipeline.master"],
            remote=values["pipeline.remote"],
            lake=values["pipeline.lake"],
            conf=values["pipeline.conf"],
        ),
    )


def check_settings(settings: Settings) -> Settings:
    """What code gave in place of the environment, under the same rules. Raises ConfigError."""
    check_namespace(settings.namespace)
    texts = {"broker_url": settings.broker_url, "signing_keys": settings.signing_keys}
    texts |= {"control.keys": settings.control.keys}
    texts |= {} if settings.results_url is None else {"results_url": settings.results_url}
    texts |= {} if settings.revokes_url is None else {"revokes_url": settings.revokes_url}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ConfigError(f"{name} is of type {type(text).__name__}; give a string.")
    if not isinstance(settings.fair_share, bool):
        raise ConfigError(f"fair_share is {settings.fair_share!r}; use True or False.")
    _check_number("timeout_seconds", settings.timeout_seconds, MAX_TIMEOUT_SECONDS)
    _check_number("max_args_bytes", settings.max_args_bytes, MAX_ARGS_BYTES, is_whole=True)
    if settings.max_result_bytes is not None:
        _check_number("max_result_bytes", settings.max_result_bytes, MAX_ARGS_BYTES, is_whole=True)
    if settings.signature_max_age_seconds is not None:
        _check_number("signature_max_age_seconds", settings.signature_max_age_seconds, MAX_RETENTION_SECONDS)
    _check_number("results_seconds", settings.retention.results_seconds, MAX_RETENTION_SECONDS)
    _check_number("events_seconds", settings.retention.events_seconds, MAX_RETENTION_SECONDS)
    _check_number("events_count", settings.retention.events_count, MAX_EVENTS_COUNT, is_whole=True)
    _check_control(settings.control)
    return settings


def _check_control(control: Control) -> None:
    for name in (control.namespace, control.worker_namespace):
        if name is not None:
            check_namespace(name)
    _check_number("control.timeout_seconds", control.timeout_seconds, MAX_TIMEOUT_SECONDS)
    _check_number("control.poll_seconds", control.poll_seconds, 3600)
    _check_number("control.commands_per_second", control.commands_per_second, 10**6)
    for fault in control_faults(control):
        raise ConfigError(fault)


def control_faults(control: Control) -> list[str]:
    """What would leave control over HTTP open, or half closed, though somebody meant to close it."""
    faults = []
    if control.token and len(control.token) < _LEAST_TOKEN:
        faults.append(
            f"The control token has fewer than {_LEAST_TOKEN} characters; make one with: openssl rand -hex 32"
        )
    if (control.cert_file is None) != (control.key_file is None):
        has, lacks = ("certificate", "key") if control.key_file is None else ("key", "certificate")
        faults.append(
            f"Control has a TLS {has} and no {lacks}; set both STEM_CONTROL_CERT and STEM_CONTROL_KEY, or none."
        )
    if control.http is None:
        return faults
    host = control.http.rpartition(":")[0]
    if control.ca_file is not None and control.cert_file is None and control.key_file is None:
        faults.append(
            "STEM_CONTROL_CA is set and the worker's endpoint has no certificate, so it would speak plain http; set "
            "STEM_CONTROL_CERT and STEM_CONTROL_KEY, too."
        )
    elif control.cert_file is None and not is_loopback(host):
        faults.append(
            f"The control endpoint {control.http} is reachable from other machines, and plain http would show its token "
            "to them; set STEM_CONTROL_CERT and STEM_CONTROL_KEY, or listen on 127.0.0.1."
        )
    if not control.token and control.ca_file is None:
        faults.append(
            "A control endpoint needs a token or TLS that asks for client certificates, else anybody could steer; set "
            "STEM_CONTROL_TOKEN or STEM_CONTROL_CA."
        )
    return faults


def check_namespace(value: str) -> str:
    if not isinstance(value, str) or not _NAMESPACE.fullmatch(value):
        raise ConfigError(f"Namespace {value!r} is not 1 to 64 of letters, digits, '.', '_' and '-'.")
    return value


def without_driver(url: str) -> str:
    """`postgresql+psycopg://…`, as SQLAlchemy writes it, without the driver: which one is used is up to Stem."""
    return _DRIVER.sub(r"\1:", url)


def _check_number(name: str, value: object, most: int, *, is_whole: bool = False) -> None:
    kinds = int if is_whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value <= most:
        raise ConfigError(f"{name} {value!r} is not a {'whole ' if is_whole else ''}number above zero, up to {most:,}.")


def _shown(settings: Control | Pipeline) -> str:
    """As a struct tells of itself, without what is secret: it may end in a log or a traceback."""
    fields = ((name, getattr(settings, name)) for name in settings.__struct_fields__)
    told = ", ".join(f"{name}={_shown_value(name, value)!r}" for name, value in fields)
    return f"{type(settings).__name__}({told})"


def _shown_value(name: str, value: object) -> object:
    match value:
        case dict():
            return masked_options(value)
        case str() if value:
            return MASK if is_secret(name) else masked_text(value)
        case _:
            return value


def _path(text: str | None) -> PurePath | None:
    return PurePath(text) if text else None


def _read_namespace(value: object) -> str:
    if not isinstance(value, str) or not _NAMESPACE.fullmatch(value):
        raise ValueError("1 to 64 of letters, digits, '.', '_' and '-', as text")
    return value


def _read_transports(value: object) -> str:
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else []
    if not names or not TRANSPORTS.issuperset(names):
        raise ValueError(f"one or more of {', '.join(sorted(TRANSPORTS))}, with commas between them")
    return ",".join(names)


def _read_address(value: object) -> str:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError("an address like 127.0.0.1:8765")
    return f"{host}:{port}"


def _read_allowed(value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and _ALLOWED.fullmatch(name) for name in names):
        raise ValueError("hosts like worker1.example.org, *.example.org or 10.0.0.7:8765, with commas between them")
    return tuple(names)


def _read_conf(value: object) -> dict[str, str]:
    """Spark's own names and values; YAML's numbers and switches as Spark writes them."""
    if not isinstance(value, dict) or not all(isinstance(key, str) and key.startswith("spark.") for key in value):
        raise ValueError("settings of Spark's, like spark.executor.memory: 2g")
    return {key: str(each).lower() if isinstance(each, bool) else str(each) for key, each in value.items()}


def _read_keys(value: object) -> str:
    if not isinstance(value, str) or not value.strip(" \t\r\n,"):
        raise ValueError("a list of keys; unset it to sign nothing")
    return value


def _shown_lake(lake: str) -> str:
    """A folder may have any name; an address may have credentials."""
    return masked(lake) if "://" in lake else lake


_NAME = Kind(_read_namespace)
_KEYS = Kind(_read_keys)
_WEEK = 7 * 86400.0
_KEPT = seconds(MAX_RETENTION_SECONDS)

# Every setting that a store or a client has: its place in the file, its form, its default and its variable.
OPTIONS = (
    Option("broker.url", TEXT, DEFAULT_URL, "STEM_BROKER_URL", mask=masked),
    Option("broker.timeout", seconds(MAX_TIMEOUT_SECONDS), 5.0, "STEM_STORE_TIMEOUT"),
    Option("results.url", TEXT, None, "STEM_RESULT_BACKEND_URL", follows="broker.url", mask=masked),
    Option("results.ttl", _KEPT, _WEEK, "STEM_RESULT_TTL"),
    Option("revokes.url", TEXT, None, "STEM_REVOKE_STORE_URL", follows="results.url", mask=masked),
    Option("events.ttl", _KEPT, _WEEK, "STEM_EVENTS_TTL"),
    Option("events.count", whole(1, MAX_EVENTS_COUNT), 1_000_000, "STEM_EVENTS_COUNT"),
    Option("namespace", _NAME, "stem", "STEM_NAMESPACE"),
    Option("maxArgsBytes", size_up_to(MAX_ARGS_BYTES), 1024 * 1024, "STEM_MAX_ARGS_BYTES"),
    Option("maxResultBytes", size_up_to(MAX_ARGS_BYTES), None, "STEM_MAX_RESULT_BYTES", follows="maxArgsBytes"),
    Option("postgres.owners", NAMES, (), "STEM_POSTGRES_OWNERS"),
    Option("fairShare", SWITCH, False, "STEM_FAIR_SHARE"),
    Option("tls.caCert", TEXT, None, "STEM_TLS_CA_CERT", ("ca", "caFile")),
    Option("tls.clientCert", TEXT, None, "STEM_TLS_CLIENT_CERT", ("cert", "certFile")),
    Option("tls.clientKey", TEXT, None, "STEM_TLS_CLIENT_KEY", ("key", "keyFile"), mask=masked_path),
    Option("tls.verify", SWITCH, True, "STEM_TLS_VERIFY"),
    Option("signing.keys", _KEYS, "", "STEM_SIGNING_KEYS", mask=masked_keys, is_never_empty=True),
    Option("signing.maxAge", _KEPT, None, "STEM_SIGNATURE_MAX_AGE"),
    Option("worker.namespace", _NAME, None, "STEM_WORKER_NAMESPACE", follows="namespace"),
    Option("control.namespace", _NAME, None, "STEM_CONTROL_NAMESPACE", follows="worker.namespace"),
    Option("control.timeout", seconds(MAX_TIMEOUT_SECONDS), 5.0, "STEM_CONTROL_TIMEOUT"),
    Option("control.pollInterval", seconds(3600.0), 5.0),
    Option("control.commandsPerSecond", number(1e6), 10.0),
    Option("control.transports", Kind(_read_transports), "broker", "STEM_CONTROL_TRANSPORTS", ("transport",)),
    Option("control.http", Kind(_read_address), None, "STEM_CONTROL_HTTP"),
    Option("control.httpAllow", Kind(_read_allowed, NAMES.from_text), (), "STEM_CONTROL_HTTP_ALLOW"),
    Option("control.token", TEXT, "", "STEM_CONTROL_TOKEN", mask=lambda token: MASK if token else ""),
    Option("control.keys", _KEYS, None, CONTROL_KEYS, follows="signing.keys", mask=masked_keys, is_never_empty=True),
    Option("control.cert", TEXT, None, "STEM_CONTROL_CERT"),
    Option("control.key", TEXT, None, "STEM_CONTROL_KEY", mask=masked_path),
    Option("control.ca", TEXT, None, "STEM_CONTROL_CA"),
    Option("pipeline.master", TEXT, None, "STEM_SPARK_MASTER", mask=masked_text),
    Option("pipeline.remote", TEXT, None, "STEM_SPARK_REMOTE", mask=lambda url: masked(url.partition(";")[0])),
    Option("pipeline.lake", TEXT, DEFAULT_LAKE, "STEM_LAKE", mask=_shown_lake),
    Option("pipeline.conf", Kind(_read_conf), {}, mask=masked_options),
)
