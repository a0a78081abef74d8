"""Access the storage of tables: local folders, or buckets of an object store configured by the environment."""

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
    """The options as delta-rs takes them; plain http only for an endpoint that begins with http://."""
    if not is_remote(uri):
        return None
    plain = {"AWS_ALLOW_HTTP": "true"} if _endpoint(options).startswith("http://") else {}
    return {**_PATIENCE, **plain, **options}


def file_system(uri: str, options: Mapping[str, str] | None = None) -> "tuple[pafs.FileSystem, str]":
    """The file system of an address, and the path in it."""
    import pyarrow.fs as pafs

    if not is_remote(uri):
        return pafs.LocalFileSystem(), uri.removeprefix("file://")
    given = options_for(uri) if options is None else options
    address = urlsplit(uri)
    if address.scheme in ("s3", "s3a"):
        return _s3(given), f"{address.netloc}{address.path}"
    if address.scheme in ("abfs", "abfss"):
        return _azure(address.netloc, given), f"{address.netloc.partition('@')[0]}{address.path}"
    fs, path = pafs.FileSystem.from_uri(uri)
    return fs, str(path)


def put(uri: str, content: bytes, options: Mapping[str, str] | None = None) -> None:
    """Write a small file atomically. Raises OSError."""
    fs, path = file_system(uri, options)
    if is_remote(uri):  # objects appear when they are complete
        with fs.open_output_stream(path) as stream:
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
    text = _COLOUR.sub("", str(error))
    for name, value in (os.environ | dict(options or {})).items():
        if value and OPTION.fullmatch(name) and _SECRET.search(name):
            text = text.replace(value, "***")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("<")]
    return ": ".join(dict.fromkeys([*lines[:1], *lines[-1:]]))[:300] or type(error).__name__


def _endpoint(options: Mapping[str, str]) -> str:
    return options.get("AWS_ENDPOINT_URL_S3") or options.get("AWS_ENDPOINT_URL") or options.get("AWS_ENDPOINT") or ""


def _s3(options: Mapping[str, str]) -> "pafs.FileSystem":
    """pyarrow looks up what is missing where the tools of AWS do."""
    import pyarrow.fs as pafs

    scheme, _, host = _endpoint(options).rpartition("://")
    region = options.get("AWS_REGION") or options.get("AWS_DEFAULT_REGION")
    return pafs.S3FileSystem(
        access_key=options.get("AWS_ACCESS_KEY_ID"),
        secret_key=options.get("AWS_SECRET_ACCESS_KEY"),
        session_token=options.get("AWS_SESSION_TOKEN"),
        **({"region": region} if region else {}),
        **({"endpoint_override": host.rstrip("/"), "scheme": scheme or "https"} if host else {}),
        connect_timeout=5,
        request_timeout=20,
    )


def _azure(netloc: str, options: Mapping[str, str]) -> "pafs.FileSystem":
    import pyarrow.fs as pafs

    account = netloc.partition("@")[2].partition(".")[0] or options.get("AZURE_STORAGE_ACCOUNT_NAME", "")
    return pafs.AzureFileSystem(
        account_name=account,
        account_key=options.get("AZURE_STORAGE_ACCOUNT_KEY"),
        sas_token=options.get("AZURE_STORAGE_SAS_TOKEN") or options.get("AZURE_STORAGE_SAS_KEY"),
    )
