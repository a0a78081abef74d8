"""The settings of stores, clients and control: frozen, checked once, then passed down."""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated

import msgspec

from stem.core.decisions.routing import Route
from stem.core.errors import ConfigError
from stem.core.settings.control import CONTROL_KEYS as CONTROL_KEYS
from stem.core.settings.control import KEYS, NAMESPACE, TIMEOUT, control_problems, masked_repr
from stem.core.settings.control import ControlSettings as ControlSettings
from stem.core.settings.control import check_namespace as check_namespace
from stem.core.settings.kinds import NAMES, PATH, SWITCH, TEXT, ValueKind, seconds, size_up_to, whole
from stem.core.settings.routes import ROUTES
from stem.core.settings.setting import Setting, build, declared, problems, read_environment
from stem.core.text.masking import masked as masked
from stem.core.text.masking import masked_keys, masked_options, masked_path, masked_text
from stem.core.text.store_url import store_key

DEFAULT_URL = "sqlite:///stem.db"
DEFAULT_LAKE = "stem-lake"

_DRIVER = re.compile(r"^(\w+)\+\w+:")


def _read_conf(value: object) -> dict[str, str]:
    """Spark's own names and values; YAML's numbers and switches as Spark writes them."""
    if not isinstance(value, dict) or not all(isinstance(key, str) and key.startswith("spark.") for key in value):
        raise ValueError("settings of Spark's, like spark.executor.memory: 2g")
    return {key: str(each).lower() if isinstance(each, bool) else str(each) for key, each in value.items()}


def _shown_lake(lake: str) -> str:
    """A folder may have any name; an address may have credentials."""
    return masked(lake) if "://" in lake else lake


def _masked_remote(url: str) -> str:
    return masked(url.partition(";")[0])


# Beyond these some store's own numbers end.
_KEPT = seconds(100 * 365 * 86400)
_SIZE = size_up_to(256 * 1024 * 1024)
_WEEK = 7 * 86400.0


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long the past is kept. Both bounds on events hold."""

    results_seconds: Annotated[float, Setting("results.ttl", _KEPT, "Keep results this long.", "STEM_RESULT_TTL")] = (
        _WEEK
    )
    events_seconds: Annotated[float, Setting("events.ttl", _KEPT, "Keep events this long.", "STEM_EVENTS_TTL")] = _WEEK
    events_count: Annotated[
        int, Setting("events.count", whole(1, 10**12), "Keep at most this many events.", "STEM_EVENTS_COUNT")
    ] = 1_000_000
    logs_seconds: Annotated[
        float, Setting("logs.ttl", _KEPT, "Keep what tasks print this long.", "STEM_TASK_LOGS_TTL")
    ] = 86400.0


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """TLS for network stores. The files are paths; nothing here is secret."""

    ca_file: Annotated[
        PurePath | None,
        Setting("tls.caCert", PATH, "CA certificates that verify the stores.", "STEM_TLS_CA_CERT", "ca caFile"),
    ] = None
    cert_file: Annotated[
        PurePath | None,
        Setting("tls.clientCert", PATH, "Stem's own certificate.", "STEM_TLS_CLIENT_CERT", "cert certFile"),
    ] = None
    key_file: Annotated[
        PurePath | None,
        Setting(
            "tls.clientKey",
            PATH,
            "Private key of the client certificate.",
            "STEM_TLS_CLIENT_KEY",
            "key keyFile",
            mask=masked_path,
        ),
    ] = None
    verify: Annotated[bool, Setting("tls.verify", SWITCH, "Verify the stores' certificates.", "STEM_TLS_VERIFY")] = True


class PipelineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where Spark runs and where the lake lies. With neither master nor remote, Spark is embedded."""

    master: Annotated[
        str | None, Setting("pipeline.master", TEXT, "Spark master to run on.", "STEM_SPARK_MASTER", mask=masked_text)
    ] = None
    remote: Annotated[
        str | None,
        Setting("pipeline.remote", TEXT, "Spark Connect server to run on.", "STEM_SPARK_REMOTE", mask=_masked_remote),
    ] = None
    lake: Annotated[
        str, Setting("pipeline.lake", TEXT, "Folder or address of the lake.", "STEM_LAKE", mask=_shown_lake)
    ] = DEFAULT_LAKE
    conf: Annotated[
        dict[str, str],
        Setting("pipeline.conf", ValueKind("map", _read_conf), "Spark's own settings.", mask=masked_options),
    ] = {}

    def __repr__(self) -> str:
        return masked_repr(self)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one app: its stores, limits, routes, keys, control and pipeline."""

    broker_url: Annotated[str, Setting("broker.url", TEXT, "Store of the tasks.", "STEM_BROKER_URL", mask=masked)] = (
        DEFAULT_URL
    )
    timeout_seconds: Annotated[
        float, Setting("broker.timeout", TIMEOUT, "Deadline of every network call.", "STEM_STORE_TIMEOUT")
    ] = 5.0
    results_url: Annotated[
        str | None,
        Setting(
            "results.url", TEXT, "Store of the results.", "STEM_RESULT_BACKEND_URL", follows="broker.url", mask=masked
        ),
    ] = None
    revokes_url: Annotated[
        str | None,
        Setting(
            "revokes.url",
            TEXT,
            "Store or file of revokes and pauses.",
            "STEM_REVOKE_STORE_URL",
            follows="results.url",
            mask=masked,
        ),
    ] = None
    retention: Retention = Retention()
    namespace: Annotated[str, Setting("namespace", NAMESPACE, "Namespace within the store.", "STEM_NAMESPACE")] = "stem"
    max_args_bytes: Annotated[
        int, Setting("maxArgsBytes", _SIZE, "The largest arguments of a task.", "STEM_MAX_ARGS_BYTES")
    ] = 1024 * 1024
    max_result_bytes: Annotated[
        int | None,
        Setting(
            "maxResultBytes", _SIZE, "The largest result of a task.", "STEM_MAX_RESULT_BYTES", follows="maxArgsBytes"
        ),
    ] = None
    postgres_owners: Annotated[
        tuple[str, ...],
        Setting("postgres.owners", NAMES, "Further roles whose schema is used.", "STEM_POSTGRES_OWNERS"),
    ] = ()
    fair_share: Annotated[
        bool, Setting("fairShare", SWITCH, "Serve tenants in turn instead of by age.", "STEM_FAIR_SHARE")
    ] = False
    routes: Annotated[
        tuple[Route, ...], Setting("routes", ROUTES, "Rules that choose queue, priority and tenant by task name.")
    ] = ()
    tls: Tls = Tls()
    signing_keys: Annotated[  # as keys.Keyring.parse reads it
        str,
        Setting(
            "signing.keys", KEYS, "Keys that sign tasks.", "STEM_SIGNING_KEYS", mask=masked_keys, is_never_empty=True
        ),
    ] = ""
    signature_max_age_seconds: Annotated[
        float | None,
        Setting("signing.maxAge", _KEPT, "Refuse a signed task this long after it is due.", "STEM_SIGNATURE_MAX_AGE"),
    ] = None
    control: ControlSettings = ControlSettings()
    pipeline: PipelineSettings = PipelineSettings()

    def __post_init__(self) -> None:
        for name in ("broker_url", "results_url", "revokes_url"):
            if isinstance(url := getattr(self, name), str) and "+" in url:
                msgspec.structs.force_setattr(self, name, without_driver(url))

    def __repr__(self) -> str:
        """Leave secrets out, because this may end up in a log."""
        results = None if self.results_url is None else masked(self.results_url)
        return f"Settings(broker_url={masked(self.broker_url)!r}, results_url={results!r}, namespace={self.namespace!r}, …)"

    @property
    def results_are_apart(self) -> bool:
        """A relative path and an absolute one count as two: see `client.stores.with_absolute_paths`."""
        return self.results_url is not None and store_key(self.results_url) != store_key(self.broker_url)

    @property
    def revokes_place(self) -> str:
        """The URL, or the path of a file, where revokes are kept."""
        return self.revokes_url or self.results_url or self.broker_url

    @property
    def control_keys(self) -> str:
        """The keys that sign commands, replies, revokes and pauses."""
        return self.control.keys or self.signing_keys

    @property
    def worker_namespace(self) -> str:
        """The namespace in which workers send heartbeats."""
        return self.control.worker_namespace or self.namespace

    @property
    def control_namespace(self) -> str:
        """The namespace in which workers receive commands."""
        return self.control.namespace or self.worker_namespace


def from_environment(env: Mapping[str, str]) -> Settings:
    """Read the settings that variables give; flags and code override them with `msgspec.structs.replace`. Raises ConfigError."""
    reading = read_environment(declared(Settings), env)
    if reading.errors:
        raise ConfigError(reading.errors[0])
    return build(Settings, reading.values)


def check_settings(settings: Settings) -> Settings:
    """Judge what code gave by the rules of the environment. Raises ConfigError."""
    for name in (settings.namespace, settings.control.namespace, settings.control.worker_namespace):
        if name is not None:
            check_namespace(name)
    for problem in (*problems(settings), *control_problems(settings.control)):
        raise ConfigError(problem)
    return settings


def without_driver(url: str) -> str:
    """`postgresql+psycopg://…`, as SQLAlchemy writes it, without the driver: which one is used is up to Stem."""
    return _DRIVER.sub(r"\1:", url)
