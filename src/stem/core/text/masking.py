"""Masks secrets before anything is shown. The only place that decides what is secret.

`masked` is for an address, `masked_options` for settings by name, `masked_text` for sentences that may hold either.
"""

import re
from collections.abc import Mapping

MASK = "***"

_SECRET_NAME = re.compile(
    r"secret|passw|pwd|token|key|credential|authorization|signature|(?:^|[._-])(?:sig|sas)(?:[._-]|$)", re.I
)
_PATHS = re.compile(r"(?:^ssl_?key|_file)$", re.I)  # say where a key lies, not what it is
# The password ends at the last @ of the authority; with a raw slash in it, at the last @ unless what stands there is a port.
_USERINFO = re.compile(r"^([^:/?#]+://[^/?#@:]*):(?:[^/?#]*|(?!\d+[/?#]).*)@")
_TOKEN_ALONE = re.compile(r"^(https?://)[^/?#@:]+@", re.I)
_OPTION = re.compile(r"(?<=[?&;#])([^=&;#\s'\"]+)=[^&;#\s'\"]*")
_HOSTS = re.compile(r"(?:(?:\[[0-9A-Fa-f:.%]*\]|[^\s:@,\[\]]*)(?::\d*)?(?:,|$))*")
# In a sentence a URL ends at a blank or a quote. `user:password@` is an example in a remedy, not a password.
_USERINFO_WITHIN = re.compile(
    r"([A-Za-z][\w+.\-]*://[^\s/?#@:'\"]*):(?!password@)(?:[^\s/?#'\"]*|(?!\d+[/?#])[^\s'\"]*)@"
)
_SETTING_WITHIN = re.compile(r"([A-Za-z_]\w*(?:\.[\w\-]+)+)(\s*=\s*['\"]?|['\"]\s*:\s*['\"]?)([^\s'\",;]+)")
# The same of a name without dots. After a dot it is a setting's, whose colon begins a sentence about it.
_WORD_WITHIN = re.compile(
    r"(?<![\w.\-])([\w\-]++)(['\"]?\s*(?:=(?!=)|:(?!//))\s*)((?:bearer|basic)\s+\S+|'[^']*'|\"[^\"]*\"|[^\s'\",;&)}\]]+)",
    re.I,
)
# What can only be a secret: a bare `key` names tasks and limits as well.
_SECRET_WORD = re.compile(
    r"secret|passw|pwd|token|credential|authorization|(?:api|access|account|private|session)[_\-]?key", re.I
)


def masked(url: str) -> str:
    """Mask the credentials in a URL. A URL that cannot be parsed is masked whole."""
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
    """Mask settings by name, such as Spark's: secret names whole, other values like URLs."""
    return {name: MASK if is_secret(name) else _masked_value(value) for name, value in options.items()}


def masked_text(text: str) -> str:
    """Mask URLs and settings inside a sentence."""
    if "://" in text:
        text = _OPTION.sub(_without_value, _USERINFO_WITHIN.sub(rf"\1:{MASK}@", text))
    if "=" in text or ":" in text:
        text = _WORD_WITHIN.sub(_without_word, _SETTING_WITHIN.sub(_without_setting, text))
    return text


def masked_keys(keys: str) -> str:
    """Mask key settings; ids, algorithms and paths of files stay."""
    if not keys or keys.strip().startswith("@"):
        return keys
    parts = (entry.strip().split(":", 2) for entry in keys.split(","))
    return ",".join(
        ":".join([*part[:2], part[2] if part[2].startswith("@") else MASK]) if len(part) == 3 else MASK
        for part in parts
    )


def masked_path(path: str) -> str:
    """Mask a key that was given where its path belongs."""
    return MASK if "\n" in path or "-----" in path else path


def is_secret(name: str) -> bool:
    """Whether a setting of that name is secret."""
    return _SECRET_NAME.search(name) is not None and _PATHS.search(name) is None


def _masked_value(value: str) -> str:
    is_address = "://" in value and not any(c.isspace() for c in value)
    return masked(value) if is_address else masked_text(value)


def _without_value(option: re.Match[str]) -> str:
    from urllib.parse import unquote

    return f"{option[1]}={MASK}" if is_secret(unquote(option[1])) else option[0]


def _without_setting(setting: re.Match[str]) -> str:
    return f"{setting[1]}{setting[2]}{MASK}" if is_secret(setting[1]) else setting[0]


def _without_word(setting: re.Match[str]) -> str:
    name, sign = setting[1], setting[2]
    is_variable = name.isupper() and "=" in sign  # of the environment: then a key is a secret as well
    is_hidden = is_secret(name) and (is_variable or _SECRET_WORD.search(name) is not None)
    return f"{name}{sign}{MASK}" if is_hidden else setting[0]
