"""What a query of Spark's died of, in one sentence instead of the stacks of two languages."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from stem.core.errors import LakeRefused, SparkUnavailable, StemError, UsageError

MEMORY = "spark.driver.memory under pipeline.conf of stem.yaml"
_POINTER = re.compile(r";?\s*(?:'[A-Z]\w+|line \d+ pos \d+).*", re.DOTALL)
_CODE = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )*(?:\[[A-Z_.]+\]\s*)?")
_FILE = re.compile(r"[^\s'\"(]+\.parquet")


@contextmanager
def in_a_sentence() -> Iterator[None]:
    """Around what Spark runs for a question to the lake. Raises UsageError, LakeRefused, SparkUnavailable."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
        raise fallen(error) from error


def fallen(error: Exception) -> StemError:
    """What to tell of an error that Spark, the way to it, or a file of the lake has raised."""
    text = str(error).strip()
    if "OutOfMemoryError" in text or "spark.driver.maxResultSize" in text:
        return UsageError(
            f"The answer is larger than the memory of Spark's driver; ask for less of it at once, or set {MEMORY}."
        )
    if isinstance(error, ConnectionError | EOFError) or "Py4JNetworkError" in f"{type(error).__name__} {text}":
        return SparkUnavailable(f"Spark's JVM ended while it worked, most often for want of memory; set {MEMORY}.")
    if file := _unreadable(f"{type(error).__name__}: {text}"):
        return LakeRefused(
            f"{file} is damaged or gone, so the lake cannot be read as it is; ask again if a run tends the lake just "
            "now, else restore the file."
        )
    return UsageError(f"Spark cannot answer this ({brief(text)}); correct the query.")


def brief(text: str) -> str:
    """The first sentence of what is behind it all, without codes, plans and stacks."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    raised = [line.removeprefix(": ") for line in lines[1:] if line.startswith(": ")]
    first = [*causes[-1:], *raised, *lines, ""][0]
    return re.sub(r"\s*SQLSTATE: \w+", "", _POINTER.sub("", _CODE.sub("", first))).strip().rstrip(".")[:300]


def _unreadable(text: str) -> str | None:
    """The file of the lake that could not be read, if that is what happened."""
    if not re.search(r"FAILED_READ_FILE|ArrowInvalid|FileNotFoundError|\bOSError", text):
        return None
    found = _FILE.search(text)
    return found[0] if found else None
