"""Take out what is secret before anything is shown: the one place that decides what that is.

`masked` is for an address, `masked_options` for settings by name, `masked_text` for sentences that may hold either.
"""

import re
from collections.abc import Mapping

MASK = "***"

_SECRET_NAME = re.compile(r"secret|passw|pwd|token|key|credential|signature|(?:^|[._-])(?:sig|sas)(?:[._-]|$)", re.I)
_PATHS = re.compile(r"(?:^ssl_?key|_file)$", re.I)  # say where a key lies, not what it is
# The password ends at the last @ of the authority; with a raw slash in it, at the last @ unless what stands there is a port.
_USERINFO = re.compile(r"^([^:/?#]+://[^/?#@:]*):(?:[^/?#]*|(?!\d+[/?#]).*)@")
_TOKEN_ALONE = re.compile(r"^(https?://)[^/?#@:]+@", re.I)
_OPTION = re.compile(r"(?<=[?&;#])([^=&;#\s'\"]+)=[^&;#\s'\"]*")
_HOSTS = re.compile(r"(?:(?:\[[0-9A-Fa-f:.%]*\]|[^\s:@,\[\]]*)(?::\d*)?(?:,|$))*")
# In a sentence a URL ends at a blank or a quote. `user:password@` is what a remedy says, and nobody's password.
_USERINFO_WITHIN = re.compile(
    r"([A-Za-z][\w+.\-]*://[^\s/?#@:'\"]*):(?!password@)(?:[^\s/?#'\"]*|(?!\d+[/?#])[^\s'\"]*)@"
)
_SETTING_WITHIN = re.compile(r"([A-Za-z_]\w*(?:\.[\w\-]+)+)(\s*=\s*['\"]?|['\"]\s*:\s*['\"]?)([^\s'\",;]+)")


def masked(url: str) -> str:
    """An address without its credentials, fit for logs and messages. One that cannot be read is not shown at all."""
    shown = _TOKEN_ALONE.sub(rf"\1{MASK}@", _USERINFO.sub(rf"\1:{MASK}@", url))
    shown = _OPTION.sub(_without_value, shown)
    if "://" not in shown:
        return MASK if "@" in shown or any(c.isspace() for c in shown) else shown
    from urllib.parse import urlsplit  # here, for errors import this module, and everything imports errors

    try:
        hosts = urlsplit(shown).netloc.rpartition("@")[2]
    except ValueError:
        hosts = " "
    return shown if _HOSTS.fullmatch(hosts) else f"{shown.partition('://')[0]}://{MASK}"


def masked_options(options: Mapping[str, str]) -> dict[str, str]:
    """Settings by name, such as Spark's: those whose name says so are not shown, the others as addresses are."""
    return {name: MASK if is_secret(name) else _masked_value(value) for name, value in options.items()}


def masked_text(text: str) -> str:
    """A sentence, in which addresses and settings may stand."""
    if "://" in text:
        text = _OPTION.sub(_without_value, _USERINFO_WITHIN.sub(rf"\1:{MASK}@", text))
    return _SETTING_WITHIN.sub(_without_setting, text) if "=" in text or ":" in text else text


def masked_keys(keys: str) -> str:
    """Ids and algorithms, and the paths of files; never a key."""
    if not keys or keys.strip().startswith("@"):
        return keys
    parts = (entry.strip().split(":", 2) for entry in keys.split(","))
    return ",".join(
        ":".join([*part[:2], part[2] if part[2].startswith("@") else MASK]) if len(part) == 3 else MASK
        for part in parts
    )


def masked_path(path: str) -> str:
    """The path of a key's file; not the key itself, should somebody have put it there."""
    return MASK if "\n" in path or "-----" in path else path


def is_secret(name: str) -> bool:
    """Whether a value of that name is not to be shown."""
    return _SECRET_NAME.search(name) is not None and _PATHS.search(name) is None


def _masked_value(value: str) -> str:
    is_address = "://" in value and not any(c.isspace() for c in value)
    return masked(value) if is_address else masked_text(value)


def _without_value(option: re.Match[str]) -> str:
    from urllib.parse import unquote

    return f"{option[1]}={MASK}" if is_secret(unquote(option[1])) else option[0]


def _without_setting(setting: re.Match[str]) -> str:
    return f"{setting[1]}{setting[2]}{MASK}" if is_secret(setting[1]) else setting[0]
