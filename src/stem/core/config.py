"""Settings from a mapping of environment variables: frozen, checked once, then passed down."""

import re
from collections.abc import Mapping
from pathlib import PurePath

import msgspec

from stem.core.errors import ConfigError
from stem.core.place import place

DEFAULT_URL = "sqlite:///stem.db"

# Beyond these some store's own numbers end.
MAX_TIMEOUT_SECONDS = 86400
MAX_RETENTION_SECONDS = 100 * 365 * 86400
MAX_ARGS_BYTES = 256 * 1024 * 1024
MAX_EVENTS_COUNT = 10**12

# The password ends at the last @ of the authority; with a raw slash in it, at the last @ unless what stands there is a port.
_USERINFO = re.compile(r"^([^:/?#]+://[^/?#@:]*):(?:[^/?#]*|(?!\d+[/?#]).*)@")
_SECRET_OPTION = re.compile(r"(?<=[?&])(\w*(?:password|passwd|secret))=[^&#]*", re.IGNORECASE)
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


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    broker_url: str = DEFAULT_URL
    results_url: str | None = None  # None: results live with the broker
    namespace: str = "stem"
    timeout_seconds: float = 5.0  # deadline of every network call
    max_args_bytes: int = 1024 * 1024
    retention: Retention = Retention()
    tls: Tls = Tls()
    fair_share: bool = False  # tenants wait apart, and are served in turn
    signing_keys: str = ""  # as keys.Keyring.parse reads it

    def __repr__(self) -> str:
        """Without what is secret, for it may end in a log."""
        results = None if self.results_url is None else masked(self.results_url)
        return f"Settings(broker_url={masked(self.broker_url)!r}, results_url={results!r}, namespace={self.namespace!r}, …)"

    @property
    def results_are_apart(self) -> bool:
        """A relative path and an absolute one count as two: see `backends.placed`."""
        return self.results_url is not None and place(self.results_url) != place(self.broker_url)


def from_environment(env: Mapping[str, str]) -> Settings:
    """Flags and code override what this returns (with `msgspec.structs.replace`)."""
    return Settings(
        broker_url=env.get("STEM_BROKER_URL") or DEFAULT_URL,
        results_url=env.get("STEM_RESULT_BACKEND_URL") or None,
        namespace=check_namespace(env.get("STEM_NAMESPACE") or "stem"),
        timeout_seconds=_number(env, "STEM_STORE_TIMEOUT", 5.0, MAX_TIMEOUT_SECONDS),
        max_args_bytes=_count(env, "STEM_MAX_ARGS_BYTES", 1024 * 1024, MAX_ARGS_BYTES),
        retention=Retention(
            results_seconds=_number(env, "STEM_RESULT_TTL", 7 * 86400.0, MAX_RETENTION_SECONDS),
            events_seconds=_number(env, "STEM_EVENTS_TTL", 7 * 86400.0, MAX_RETENTION_SECONDS),
            events_count=_count(env, "STEM_EVENTS_COUNT", 1_000_000, MAX_EVENTS_COUNT),
        ),
        tls=Tls(
            ca_file=_path(env, "STEM_TLS_CA_CERT"),
            cert_file=_path(env, "STEM_TLS_CLIENT_CERT"),
            key_file=_path(env, "STEM_TLS_CLIENT_KEY"),
            verify=_switch(env, "STEM_TLS_VERIFY", default=True),
        ),
        fair_share=_switch(env, "STEM_FAIR_SHARE", default=False),
        signing_keys=env.get("STEM_SIGNING_KEYS") or "",
    )


def check_settings(settings: Settings) -> Settings:
    """What code gave in place of the environment, under the same rules. Raises ConfigError."""
    check_namespace(settings.namespace)
    texts = {"broker_url": settings.broker_url, "signing_keys": settings.signing_keys}
    if settings.results_url is not None:
        texts["results_url"] = settings.results_url
    for name, text in texts.items():
        if not isinstance(text, str):
            raise ConfigError(f"{name} is a {type(text).__name__}; give a string.")
    if not isinstance(settings.fair_share, bool):
        raise ConfigError(f"fair_share is {settings.fair_share!r}; use True or False.")
    _check_number("timeout_seconds", settings.timeout_seconds, MAX_TIMEOUT_SECONDS)
    _check_number("max_args_bytes", settings.max_args_bytes, MAX_ARGS_BYTES, whole=True)
    _check_number("results_seconds", settings.retention.results_seconds, MAX_RETENTION_SECONDS)
    _check_number("events_seconds", settings.retention.events_seconds, MAX_RETENTION_SECONDS)
    _check_number("events_count", settings.retention.events_count, MAX_EVENTS_COUNT, whole=True)
    return settings


def check_namespace(value: str) -> str:
    if not isinstance(value, str) or not _NAMESPACE.fullmatch(value):
        raise ConfigError(f"Namespace {value!r} is not 1 to 64 of letters, digits, '.', '_' and '-'.")
    return value


def masked(url: str) -> str:
    """The URL without its password, fit for logs and error messages; a broken one too."""
    return _SECRET_OPTION.sub(r"\1=***", _USERINFO.sub(r"\1:***@", url))


def _number(env: Mapping[str, str], name: str, default: float, most: float) -> float:
    text = env.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= most:
        raise ConfigError(f"{name}={text!r} is not a number above zero, up to {most:,}.")
    return value


def _count(env: Mapping[str, str], name: str, default: int, most: int) -> int:
    text = env.get(name)
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 1 <= value <= most:
        raise ConfigError(f"{name}={text!r} is not a whole number from 1 to {most:,}.")
    return value


def _check_number(name: str, value: object, most: int, *, whole: bool = False) -> None:
    kinds = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value <= most:
        raise ConfigError(f"{name} {value!r} is not a {'whole ' if whole else ''}number above zero, up to {most:,}.")


def _path(env: Mapping[str, str], name: str) -> PurePath | None:
    return PurePath(env[name]) if env.get(name) else None


def _switch(env: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = env.get(name, "").strip().lower()
    if text in ("", "1", "true", "yes", "on"):
        return default if text == "" else True
    if text in ("0", "false", "no", "off"):
        return False
    raise ConfigError(f"{name}={text!r} is not a switch; use 1 or 0.")
