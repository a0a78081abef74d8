"""Find the file that a file:// URL or a bare path names."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from stem.core.errors import ConfigError, StoreRefused
from stem.core.settings.app import masked


def address(url: str) -> Path:
    """Absolute, so that a later chdir changes nothing, and the file itself where a link leads to it: a file that is put
    in its place must not replace the link. Raises ConfigError, StoreRefused."""
    name = _named(url)
    if not name or name.endswith("/") or "\x00" in name:
        raise ConfigError(f"{masked(url)!r} names no file; use file:///var/lib/stem/revokes.stem, or a path.")
    try:
        return Path(os.path.realpath(name))
    except OSError as error:
        raise StoreRefused(
            f"{url!r} counts from the working directory, which is gone; use an absolute path."
        ) from error


def _named(url: str) -> str:
    if not url.lower().startswith("file:"):
        return url
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise ConfigError(f"{masked(url)!r} has more than a path; use file:///var/lib/stem/revokes.stem.")
    return unquote(parts.path)
