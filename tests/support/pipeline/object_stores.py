"""Object stores on this machine, each a server in a process of its own: S3, Google Cloud Storage, Azure."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.servers import free_port
from support.until import until

KEY, SECRET = "AKIALAKEOFTESTS", "a-secret-that-nobody-may-print"
NAME = "warehouse"
_TESTS = Path(__file__).parents[2]
_AZURITE_PORT = 10_000  # delta-rs looks for it there, and each Azurite has this account
_AZURITE_ACCOUNT = "devstoreaccount1"
_AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Bucket:
    """`root` is its address, `environment` the settings with which it is reached."""

    root: str
    environment: Mapping[str, str]


@contextmanager
def s3_bucket() -> Iterator[Bucket]:
    """Moto's."""
    port = free_port()
    environment = {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }
    with _server(sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)):
        _create(lambda: _put(f"http://127.0.0.1:{port}/{NAME}"))
        yield Bucket(f"s3://{NAME}", environment)


@contextmanager
def gcs_bucket() -> Iterator[Bucket]:
    port = free_port()
    key = {
        "gcs_base_url": f"http://127.0.0.1:{port}",
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    with _server(sys.executable, "-m", "support.pipeline.gcs_server", str(port)):
        _create(lambda: _put(f"http://127.0.0.1:{port}/{NAME}"))
        yield Bucket(f"gs://{NAME}", {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(key)})


@contextmanager
def azure_container(place: Path) -> Iterator[Bucket]:
    """Azurite's, of the npm package `azurite`. Skips the test where it is not installed."""
    import pyarrow.fs as pafs

    executable = shutil.which("azurite-blob")
    if executable is None:
        pytest.skip("azurite-blob is not on the PATH: npm install --global azurite")
    here = f"127.0.0.1:{_AZURITE_PORT}"
    options = ["--blobHost", "127.0.0.1", "--blobPort", str(_AZURITE_PORT), "--location", str(place)]
    with _server(executable, *options, "--skipApiVersionCheck", "--disableTelemetry"):
        files = pafs.AzureFileSystem(
            _AZURITE_ACCOUNT,
            account_key=_AZURITE_KEY,
            blob_storage_authority=here,
            blob_storage_scheme="http",
            dfs_storage_authority=here,
            dfs_storage_scheme="http",
        )
        _create(lambda: files.create_dir(NAME))
        root = f"abfss://{NAME}@{_AZURITE_ACCOUNT}.dfs.core.windows.net"
        yield Bucket(root, {"AZURE_STORAGE_USE_EMULATOR": "true"})


@contextmanager
def _server(*command: str) -> Iterator[None]:
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=_TESTS, env=dict(os.environ), stdout=quiet, stderr=quiet) as server:
        try:
            yield
        finally:
            server.kill()


def _create(create: Callable[[], object]) -> None:
    """Create the bucket, as soon as the server answers."""

    def is_created() -> bool:
        try:
            create()
        except OSError:
            return False
        return True

    until(is_created, seconds=60, every=0.1)


def _put(address: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(address, method="PUT"), timeout=10):
        pass
