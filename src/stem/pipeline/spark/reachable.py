"""Whether a cluster or a Spark Connect server is there at all: Spark's own attempts go on for minutes."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Timer

from stem.core.errors import SparkUnavailable

ANSWER_SECONDS = 20.0
_CONNECT_SECONDS = 5.0
_DEFAULT_PORT = 15002


def check_master(master: str) -> None:
    """Of a standalone cluster, by `spark://host:port,host:port`; others have no address here. Raises SparkUnavailable."""
    if not master.startswith("spark://"):
        return
    failures = [_failure(address) for address in master.removeprefix("spark://").split(",")]
    if all(failures):
        raise SparkUnavailable(
            f"Nothing answers at {master} ({'; '.join(filter(None, failures))}); start the cluster, or correct the address "
            "in --master, STEM_SPARK_MASTER or stem.yaml."
        )


def check_connect(remote: str) -> None:
    """That something speaks gRPC there. Raises SparkUnavailable."""
    if not remote.startswith("sc://"):
        return
    address = remote.removeprefix("sc://").partition(";")[0].rstrip("/")
    failure = _failure(address, _DEFAULT_PORT) or _no_grpc(remote)
    if failure:
        raise SparkUnavailable(
            f"Spark Connect at sc://{address} did not answer ({failure}); start its server, or correct the address in --remote, "
            "STEM_SPARK_REMOTE or stem.yaml."
        )


@contextmanager
def registering(master: str) -> Iterator[None]:
    """While a session is made whose JVM runs: Spark asks a standalone master that accepts connections and says nothing for a
    minute. The JVM is ended sooner, which raises where it is waited for. Raises SparkUnavailable."""
    from pyspark import SparkContext

    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is None or not master.startswith("spark://"):
        yield
        return
    timer = Timer(ANSWER_SECONDS, jvm.kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if not timer.finished.is_set():
            raise
        raise SparkUnavailable(
            f"What answers at {master} is no Spark master, or has not the time for one more application; correct the "
            "address in --master, STEM_SPARK_MASTER or stem.yaml."
        ) from error
    finally:
        timer.cancel()


def _failure(address: str, default_port: int = 7077) -> str | None:
    host, _, port = address.rpartition(":") if ":" in address else (address, "", str(default_port))
    if not port.isdecimal():
        return f"{address} is not host:port"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS):
            return None
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"


def _no_grpc(remote: str) -> str | None:
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    channel = DefaultChannelBuilder(remote).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=ANSWER_SECONDS)
    except grpc.FutureTimeoutError:
        return "something is there, but it speaks no gRPC"
    finally:
        with suppress(Exception):
            channel.close()
    return None
