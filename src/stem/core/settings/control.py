"""The settings of control: how operators reach workers, and what protects that."""

import re
from pathlib import PurePath
from typing import Annotated

import msgspec

from stem.core.errors import ConfigError
from stem.core.settings.kinds import NAMES, PATH, TEXT, ValueKind, matching, number, seconds
from stem.core.settings.setting import Setting
from stem.core.text.loopback import is_loopback
from stem.core.text.masking import MASK, is_secret, masked_keys, masked_options, masked_path, masked_text

CONTROL_KEYS = "STEM_CONTROL_KEYS"
TRANSPORTS = frozenset({"broker", "broadcast", "http", "polling"})

_ALLOWED = re.compile(r"((\*\.)?[A-Za-z0-9][A-Za-z0-9.\-]*|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?", re.ASCII)
_LEAST_TOKEN = 16  # characters; a shorter one can be guessed with enough attempts
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}", re.ASCII)


def check_namespace(value: str) -> str:
    """Return the name, or raise ConfigError."""
    if not isinstance(value, str) or not _NAMESPACE.fullmatch(value):
        raise ConfigError(f"Namespace {value!r} is not 1 to 64 of letters, digits, '.', '_' and '-'.")
    return value


def _read_transports(value: object) -> tuple[str, ...]:
    given = value.split(",") if isinstance(value, str) else value if isinstance(value, tuple) else ()
    names = tuple(str(name).strip() for name in given)
    if not names or not TRANSPORTS.issuperset(names):
        raise ValueError(f"one or more of {', '.join(sorted(TRANSPORTS))}, with commas between them")
    return names


def _read_address(value: object) -> str:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError("an address like 127.0.0.1:8765")
    return f"{host}:{port}"


def _read_allowed(value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) and _ALLOWED.fullmatch(n) for n in names):
        raise ValueError("hosts like worker1.example.org, *.example.org or 10.0.0.7:8765, with commas between them")
    return tuple(names)


def _read_keys(value: object) -> str:
    if not isinstance(value, str) or not value.strip(" \t\r\n,"):
        raise ValueError("a list of keys; unset it to sign nothing")
    return value


def _masked_token(token: str) -> str:
    return MASK if token else ""


NAMESPACE = matching(_NAMESPACE, "1 to 64 of letters, digits, '.', '_' and '-', as text")
KEYS = ValueKind("keys", _read_keys)
TIMEOUT = seconds(86400)  # beyond it some store's own numbers end
_TRANSPORTS = ValueKind("list", _read_transports, show=",".join)
_HOSTS = ValueKind("list", _read_allowed, NAMES.from_text)
ADDRESS = ValueKind("address", _read_address)


class ControlSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How operators reach workers. Names that are None follow `Settings.worker_namespace` and `control_namespace`."""

    worker_namespace: Annotated[
        str | None,
        Setting(
            "worker.namespace", NAMESPACE, "Namespace of heartbeats.", "STEM_WORKER_NAMESPACE", follows="namespace"
        ),
    ] = None
    namespace: Annotated[
        str | None,
        Setting(
            "control.namespace",
            NAMESPACE,
            "Namespace of commands.",
            "STEM_CONTROL_NAMESPACE",
            follows="worker.namespace",
        ),
    ] = None
    timeout_seconds: Annotated[
        float, Setting("control.timeout", TIMEOUT, "Wait this long for replies of workers.", "STEM_CONTROL_TIMEOUT")
    ] = 5.0
    poll_seconds: Annotated[
        float, Setting("control.pollInterval", seconds(3600.0), "Look for commands and revokes this often.")
    ] = 5.0
    commands_per_second: Annotated[
        float, Setting("control.commandsPerSecond", number(1e6), "Accept at most this many commands per second.")
    ] = 10.0
    transports: Annotated[
        tuple[str, ...],
        Setting(
            "control.transports",
            _TRANSPORTS,
            "Ways to reach workers, in order: broker, broadcast, http, polling.",
            "STEM_CONTROL_TRANSPORTS",
            "transport",
        ),
    ] = ("broker",)
    http: Annotated[
        str | None,
        Setting("control.http", ADDRESS, "Serve commands over HTTP on this host and port.", "STEM_CONTROL_HTTP"),
    ] = None
    http_allow: Annotated[  # none: see http_allowed.py
        tuple[str, ...],
        Setting("control.httpAllow", _HOSTS, "Endpoints that may be sent the token.", "STEM_CONTROL_HTTP_ALLOW"),
    ] = ()
    token: Annotated[
        str, Setting("control.token", TEXT, "Token of the HTTP endpoint.", "STEM_CONTROL_TOKEN", mask=_masked_token)
    ] = ""
    keys: Annotated[  # as keys.Keyring.parse reads it
        str,
        Setting(
            "control.keys",
            KEYS,
            "Keys that sign commands and revokes.",
            CONTROL_KEYS,
            follows="signing.keys",
            mask=masked_keys,
            is_never_empty=True,
        ),
    ] = ""
    cert_file: Annotated[
        PurePath | None, Setting("control.cert", PATH, "Certificate of the HTTP endpoint.", "STEM_CONTROL_CERT")
    ] = None
    key_file: Annotated[
        PurePath | None,
        Setting("control.key", PATH, "Private key of that certificate.", "STEM_CONTROL_KEY", mask=masked_path),
    ] = None
    ca_file: Annotated[
        PurePath | None,
        Setting("control.ca", PATH, "Accept client certificates that this one signed.", "STEM_CONTROL_CA"),
    ] = None

    def __repr__(self) -> str:
        return masked_repr(self)


def control_problems(control: ControlSettings) -> list[str]:
    """Return what would leave control over HTTP open, or half closed, though somebody meant to close it."""
    problems = []
    if control.token and len(control.token) < _LEAST_TOKEN:
        problems.append(
            f"The control token has fewer than {_LEAST_TOKEN} characters; make one with: openssl rand -hex 32"
        )
    if (control.cert_file is None) != (control.key_file is None):
        has, lacks = ("certificate", "key") if control.key_file is None else ("key", "certificate")
        problems.append(
            f"Control has a TLS {has} and no {lacks}; set both STEM_CONTROL_CERT and STEM_CONTROL_KEY, or none."
        )
    if control.http is None:
        return problems
    host = control.http.rpartition(":")[0]
    if control.ca_file is not None and control.cert_file is None and control.key_file is None:
        problems.append(
            "STEM_CONTROL_CA is set and the worker's endpoint has no certificate, so it would speak plain http; set "
            "STEM_CONTROL_CERT and STEM_CONTROL_KEY as well."
        )
    elif control.cert_file is None and not is_loopback(host):
        problems.append(
            f"The control endpoint {control.http} is reachable from other machines, and plain http would show its token "
            "to them; set STEM_CONTROL_CERT and STEM_CONTROL_KEY, or listen on 127.0.0.1."
        )
    if not control.token and control.ca_file is None:
        problems.append(
            "A control endpoint needs a token or TLS that asks for client certificates, else anybody could steer; set "
            "STEM_CONTROL_TOKEN or STEM_CONTROL_CA."
        )
    return problems


def masked_repr(settings: msgspec.Struct) -> str:
    """Return a struct's repr without secrets: it may end in a log or a traceback."""
    fields = ((name, getattr(settings, name)) for name in settings.__struct_fields__)
    told = ", ".join(f"{name}={_masked(name, value)!r}" for name, value in fields)
    return f"{type(settings).__name__}({told})"


def _masked(name: str, value: object) -> object:
    match value:
        case dict():
            return masked_options(value)
        case str() if value:
            return MASK if is_secret(name) else masked_text(value)
        case _:
            return value
