"""Access the storage of tables: local folders, or buckets of an object store configured by the environment.

Buckets are read and written through delta-rs, as the tables' logs are, so one set of options serves both.
"""

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stem.core.errors import LakeRefused

if TYPE_CHECKING:
    import pyarrow.fs as pafs

SCHEMES = ("s3", "s3a", "gs", "abfs", "abfss")
OPTION = re.compile(r"(AWS|GOOGLE|AZURE)_\w+")
_ENDPOINT = re.compile(r"AWS_ENDPOINT(_URL(_S3)?)?|GOOGLE_SERVICE_ACCOUNT_KEY|AZURE_\w*ENDPOINT")
_SECRET = re.compile(r"SECRET|PASSWORD|TOKEN|KEY|SAS|CREDENTIAL", re.IGNORECASE)
_COLOUR = re.compile(r"\x1b\[[\d;]*m|↳")

# A store that does not answer is reported within half a minute.
_PATIENCE = {"connect_timeout": "5s", "max_retries": "4", "retry_timeout": "20s"}


def is_remote(uri: str) -> bool:
    return "://" in uri and not uri.startswith("file://")


def checked(uri: str) -> str:
    """The address in the spelling that all libraries know. Raises LakeRefused if no lake can be there, or if it contains
    credentials, which would appear in messages."""
    if not is_remote(uri):
        return uri
    scheme, place = uri.split("://", 1)
    if scheme not in SCHEMES:
        raise LakeRefused(f"A lake cannot be at {scheme}://…; use a folder, or one of {', '.join(SCHEMES)}.")
    if "?" in place or ("@" in place and not scheme.startswith("abfs")):
        raise LakeRefused(
            f"The address of a lake at {scheme}:// may hold no credentials or parameters; put them into the environment, "
            "as in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    return f"s3://{place}" if scheme == "s3a" else uri


def options_for(uri: str) -> dict[str, str]:
    """The environment's settings for object stores, to be sent to executors, whose environment may lack them."""
    if not is_remote(uri):
        return {}
    return {name: value for name, value in os.environ.items() if OPTION.fullmatch(name)}


def delta_options(uri: str, options: Mapping[str, str]) -> dict[str, str] | None:
    """The options as delta-rs takes them; plain http only if an endpoint begins with http://."""
    if not is_remote(uri):
        return None
    is_plain = any("http://" in value for name, value in options.items() if _ENDPOINT.fullmatch(name))
    return {**_PATIENCE, **({"allow_http": "true"} if is_plain else {}), **options}


def file_system(uri: str, options: Mapping[str, str] | None = None) -> "tuple[pafs.FileSystem, str]":
    """The file system of an address, and the path in it."""
    import pyarrow.fs as pafs
    from deltalake.fs import DeltaStorageHandler

    if not is_remote(uri):
        return pafs.LocalFileSystem(), uri.removeprefix("file://")
    address = urlsplit(uri)
    given = options_for(uri) if options is None else options
    handler = DeltaStorageHandler(f"{address.scheme}://{address.netloc}", delta_options(uri, given))
    return pafs.PyFileSystem(handler), address.path.strip("/")


def put(uri: str, content: bytes, options: Mapping[str, str] | None = None) -> None:
    """Write a small file atomically. Raises OSError."""
    fs, path = file_system(uri, options)
    if is_remote(uri):  # objects appear when they are complete; the buffer passes bytes on, which is all delta-rs takes
        with fs.open_output_stream(path, buffer_size=len(content) + 1) as stream:
            stream.write(content)
        return
    fs.create_dir(path.rpartition("/")[0], recursive=True)
    with fs.open_output_stream(f"{path}.new") as stream:
        stream.write(content)
    fs.move(f"{path}.new", path)


def get(uri: str, options: Mapping[str, str] | None = None) -> bytes | None:
    """Read a small file; None if there is none. Raises OSError."""
    fs, path = file_system(uri, options)
    try:
        with fs.open_input_stream(path) as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        return None


def reason(error: BaseException, options: Mapping[str, str] | None = None) -> str:
    """A library's message in one line, without secrets: its first line and its last."""
    text = masked(_COLOUR.sub("", str(error)), options)
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("<")]
    return ": ".join(dict.fromkeys([*lines[:1], *lines[-1:]]))[:300] or type(error).__name__


def masked(text: str, options: Mapping[str, str] | None = None) -> str:
    """The text without the secrets among the options and in the environment."""
    for name, value in (os.environ | dict(options or {})).items():
        if value and OPTION.fullmatch(name) and _SECRET.search(name):
            text = text.replace(value, "***")
    return text
