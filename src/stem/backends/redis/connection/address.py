"""Turn a redis:// or rediss:// URL into the arguments of a connection."""

from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote, urlsplit

from stem.core.errors import ConfigError
from stem.core.settings.app import Settings, Tls, masked


def arguments(url: str, settings: Settings) -> dict[str, Any]:
    """Raises ConfigError. The deadlines are the connection's own; see `client`."""
    try:
        parts = urlsplit(url)
        port = parts.port or 6379
    except ValueError as error:
        raise _malformed(url) from error
    database = parts.path.strip("/") or "0"
    if not parts.hostname or parts.query or not database.isdecimal():
        raise _malformed(url)
    found: dict[str, Any] = {"host": parts.hostname, "port": port, "db": int(database)}
    if parts.username:
        found["username"] = unquote(parts.username)
    if parts.password:
        found["password"] = unquote(parts.password)
    return found | (_encryption(settings.tls) if parts.scheme == "rediss" else {})


def _malformed(url: str) -> ConfigError:
    return ConfigError(f"{masked(url)!r} is not a Redis URL; write redis://[user:password@]host[:port][/database].")


def _encryption(tls: Tls) -> dict[str, Any]:
    return {
        "ssl_ca_certs": _existing(tls.ca_file, "STEM_TLS_CA_CERT"),
        "ssl_certfile": _existing(tls.cert_file, "STEM_TLS_CLIENT_CERT"),
        "ssl_keyfile": _existing(tls.key_file, "STEM_TLS_CLIENT_KEY"),
        "ssl_cert_reqs": "required" if tls.verify else "none",
        "ssl_check_hostname": tls.verify,
    }


def _existing(path: PurePath | None, setting: str) -> str | None:
    if path is None:
        return None
    if not Path(path).is_file():
        raise ConfigError(f"{setting} names {str(path)!r}, which is not a file; correct the path.")
    return str(path)
