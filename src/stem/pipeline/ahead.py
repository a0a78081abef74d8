"""What a session would wait for, done beside: imports while the JVM starts, reflection while Spark's context is made."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from threading import Thread
from typing import Any

from stem.runtime.orphans import children


@contextlib.contextmanager
def imported() -> Iterator[None]:
    """PySpark imports pandas, half a second's work, at its first call of Java."""
    with _beside(_import):
        yield


@contextlib.contextmanager
def launched(settings: Mapping[str, str]) -> Iterator[None]:
    """Start the JVM, if there is none; while the context is made, it does what the session will need."""
    from pyspark import SparkConf, SparkContext

    with _no_half_started():
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))
    jvm = SparkContext._jvm
    with _beside(lambda: _register(jvm)):
        yield


@contextlib.contextmanager
def _no_half_started() -> Iterator[None]:
    """A JVM that starts takes no notice of Ctrl-C; left alone, it would print a stack when nobody waits for it any more."""
    before = set(children())
    try:
        yield
    except BaseException:
        for pid in set(children()) - before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise


def _import() -> None:
    import pyspark.testing.utils  # noqa: F401


def _register(jvm: Any) -> None:
    """Every session waits for the functions of Spark's ML: a second of reflection, once a JVM."""
    sql = jvm.org.apache.spark.sql
    sql.ml.InternalFunctionRegistration().apply(sql.SparkSessionExtensions())


@contextlib.contextmanager
def _beside(work: Callable[[], None]) -> Iterator[None]:
    """Nothing is left running afterwards: who forks next must not find threads."""
    thread = Thread(target=_try, args=(work,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _try(work: Callable[[], None]) -> None:
    """It is only about time: what fails here fails again, and is told, where it is needed."""
    with contextlib.suppress(Exception):
        work()
