"""Turn errors of Spark into one sentence each, in place of the stack traces of two languages."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stem.core.errors import LakeRefused, SparkUnavailable, StemError, UsageError

MEMORY = "spark.driver.memory under pipeline.conf of stem.yaml"
_POINTER = re.compile(r";?\s*(?:'[A-Z]\w+|line \d+ pos \d+).*", re.DOTALL)
_CODE = re.compile(r"^(?:[\w.$]+(?:Exception|Error): )*(?:\[[A-Z_.]+\]\s*)?")
_FILE = re.compile(r"[^\s'\"(]+\.parquet")
_PYTHON = re.compile(r"^\s*((?:[\w.]*)(?:Error|Exception): \S.*)$", re.MULTILINE)
_MODULE = re.compile(r"(?:No module named|There is no module) '([\w.]+)'")


def query_error(error: Exception) -> StemError:
    """Describe an error that Spark, the connection to it, or a file of the lake has raised for a query."""
    text = str(error).strip()
    if (missing := missing_module(text)) is not None:
        return missing
    if "OutOfMemoryError" in text or "spark.driver.maxResultSize" in text:
        return UsageError(
            f"The answer is larger than the memory of Spark's driver; ask for less of it at once, or set {MEMORY}."
        )
    if isinstance(error, ConnectionError | EOFError) or "Py4JNetworkError" in f"{type(error).__name__} {text}":
        return SparkUnavailable(f"Spark's JVM ended while it worked, usually for lack of memory; set {MEMORY}.")
    if file := _unreadable(f"{type(error).__name__}: {text}"):
        return LakeRefused(
            f"{file} is damaged or gone, so the lake cannot be read as it is; ask again if a run is compacting the lake "
            "now, else restore the file."
        )
    return UsageError(f"Spark cannot answer this ({brief(text)}); correct the query.")


@contextmanager
def translated(describe: Callable[[Exception], StemError] = query_error) -> Iterator[None]:
    """Raise what `describe` makes of an error of Spark or of the connection to it."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
        raise describe(error) from error


def quoted(error: BaseException) -> StemError | None:
    """The error of Stem that Spark's error quotes: it holds the whole traceback of the Python process that raised."""
    text = str(error)
    if (missing := missing_module(text)) is not None:
        return missing
    kinds = {kind.__name__: kind for kind in _subclasses(StemError)}
    for line in reversed(text.splitlines()):
        name, colon, sentence = line.strip().partition(": ")
        if colon and (kind := kinds.get(name.rpartition(".")[2])) is not None:
            return kind(sentence)
    return None


def missing_module(text: str) -> UsageError | None:
    """Python on an executor could not import a module of the user's."""
    found = _MODULE.search(text)
    if found is None:
        return None
    return UsageError(
        f"Spark's executors have no module {found[1]!r}; send your code with --py-files (or STEM_SPARK_PY_FILES), or "
        "install it where they run."
    )


def brief(text: str) -> str:
    """The first sentence of the innermost cause, without error codes, query plans and stack traces. Where a Python process of
    an executor failed, its exception."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if (raised_by_python := _PYTHON.findall(text)) and "Traceback (most recent call last)" in text:
        return str(raised_by_python[-1])[:300]
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


def _subclasses(kind: type[StemError]) -> set[type[StemError]]:
    return {kind, *(each for child in kind.__subclasses__() for each in _subclasses(child))}
