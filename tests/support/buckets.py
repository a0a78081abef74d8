"""An object store on this machine: moto's S3, in a process of its own."""

import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from support.until import until

KEY, SECRET = "AKIALAKEOFTESTS", "a-secret-that-nobody-may-print"


@dataclass(frozen=True)
class Bucket:
    name: str
    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
        }


@contextmanager
def a_bucket(name: str = "warehouse") -> Iterator[Bucket]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    bucket = Bucket(name, f"http://127.0.0.1:{port}")
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=dict(os.environ), **quiet) as server:  # type: ignore[call-overload]
        try:
            until(lambda: _create(bucket), seconds=60)
            yield bucket
        finally:
            server.kill()


def _create(bucket: Bucket) -> bool:
    request = urllib.request.Request(f"{bucket.endpoint}/{bucket.name}", method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
