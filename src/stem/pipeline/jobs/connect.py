"""Sessions on a Spark Connect server: one per task, with an id derived from the task, so that any process can end it."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from stem.contracts.engine import Attempt
from stem.core.errors import SoftTimeLimitExceeded, SparkUnavailable, TaskRevoked
from stem.pipeline.jobs.interrupts import Interrupts
from stem.pipeline.jobs.orphans import name_of
from stem.pipeline.jobs.progress import Progress, TaskCounts
from stem.pipeline.spark.session import connected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_SECONDS = 0.05
RETRIES = 4  # about four seconds
KILL_TIMEOUT, KILL_TIMEOUT_DEFAULT = "spark.python.task.killTimeout", "2s"
# Spark looks every two seconds whether the Python of a task is still wanted, then gives it the kill timeout.
SPARK_LOOKS_SECONDS = 2.0
MARGIN_SECONDS = 0.4
_UNITS = {"": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0}


class Connect:
    """Runs attempts in sessions of their own. A released session may be created again; clients of the old one are refused."""

    def __init__(self, remote: str, conf: Mapping[str, str]) -> None:
        self._remote = remote
        self._conf = conf

    def run(self, call: Callable[["SparkSession"], Any], attempt: Attempt, tag: str) -> Any:
        with ExitStack() as ends, Interrupts(attempt) as interrupts:
            self.reap(attempt.key)
            spark = connected("stem", self._address(attempt.key), self._conf)
            operations = Operations(spark, tag)
            ends.callback(operations.end)
            attempt.note(spark=operations.facts())
            with operations.followed(interrupts):
                value = call(spark)
            interrupts.finish()
            return value

    def reap(self, key: str) -> None:
        from pyspark.sql.connect.client import SparkConnectClient

        # PySpark would retry a missing server for ten minutes; a retry of the task is better.
        client = SparkConnectClient(self._address(key), retry_policy={"max_retries": RETRIES})
        try:
            end_session(client)
        except Exception as error:
            details = re.search(r'details = "(.*?)"', str(error))  # the text of gRPC has many lines
            reason = details[1] if details else str(error).strip().partition("\n")[0][:200]
            raise SparkUnavailable(
                f"Spark Connect at {self._remote.partition(';')[0]} did not answer ({reason}); "
                "start its server, or correct STEM_SPARK_REMOTE."
            ) from error
        finally:
            client.close()

    def close(self) -> None:
        """Nothing to close: no session outlives its task."""

    def _address(self, key: str) -> str:
        server, _, parameters = self._remote.partition("/;")
        given = [each for each in parameters.split(";") if each and not each.startswith("session_id=")]
        if not any(each.startswith("user_id=") for each in given):
            given.append("user_id=stem")  # sessions are looked up by user and id
        return f"{server.rstrip('/')}/;{';'.join([*given, f'session_id={name_of(key)}'])}"


class Operations:
    """The Spark Connect operations of one attempt."""

    def __init__(self, spark: "SparkSession", tag: str) -> None:
        self._spark = spark
        self._client: Any = spark.client
        self._tag = tag
        self._seen: dict[str, TaskCounts] = {}
        self._progress = Progress()

    def facts(self) -> dict[str, Any]:
        return {
            "applicationId": self._spark.conf.get("spark.app.id", None),
            "uiUrl": None,  # the server does not say
            "sessionId": self._client._session_id,
            "tag": self._tag,
        }

    @contextmanager
    def followed(self, interrupts: Interrupts) -> Iterator[None]:
        self._spark.addTag(self._tag)
        self._spark.registerProgressHandler(self._hear)  # type: ignore[arg-type]
        fetch = self._client._execute_and_fetch_as_iterator

        def fetched(request: Any, *rest: Any, **options: Any) -> Iterator[Any]:
            try:
                yield from fetch(request, *rest, **options)
            except (SoftTimeLimitExceeded, TaskRevoked):
                # Raised while waiting here; the server does not know.
                with suppress(Exception):
                    self._client.interrupt_operation(request.operation_id)
                raise

        self._client._execute_and_fetch_as_iterator = fetched
        interrupts.follow(self)
        try:
            yield
        finally:
            self._client._execute_and_fetch_as_iterator = fetch

    def is_within(self, _frame: FrameType | None, /) -> bool:
        """Never: each call has its own stream, so interrupting one does not harm others."""
        return False

    def report(self) -> tuple[float | None, str]:
        return self._progress.of(list(self._seen.values()))

    def cancel(self) -> None:
        with suppress(Exception):  # the server may be gone
            self._client.interrupt_all()

    def end(self) -> None:
        """End everything of the attempt, and its session, before returning."""
        end_session(self._client)
        self._spark.release_session_on_close = False  # type: ignore[attr-defined]
        self._spark.stop()

    def _hear(self, *, stages: Any, operation_id: str, **_more: Any) -> None:
        if stages:
            finished = sum(stage.num_completed_tasks for stage in stages)
            self._seen[operation_id] = TaskCounts(finished, sum(stage.num_tasks for stage in stages))


def end_session(client: Any) -> None:
    """Cancel the operations of the session, wait until they have ended, and release the session."""
    states = _states(client)
    if states is None:
        return
    if states & _unfinished():
        with suppress(Exception):  # they may have ended meanwhile
            while client.interrupt_all():  # until there are none
                time.sleep(LOOK_SECONDS)
        # The Python of cancelled tasks goes on for a while. The server does not say when it ends, so wait for the longest time.
        time.sleep(SPARK_LOOKS_SECONDS + _kill_timeout_seconds(client) + MARGIN_SECONDS)
    _release(client)


def _states(client: Any) -> set[int] | None:
    """The states of all operations in the session; None if there is no such session."""
    try:
        return {found.state for found in client._get_operation_statuses().operation_statuses}
    except Exception as error:
        if "INVALID_HANDLE" in str(error) or "NO_ACTIVE_SESSION" in str(error):
            return None
        raise


def _unfinished() -> set[int]:
    """Includes cancelled ones: the process that cancelled them may have died while it waited."""
    from pyspark.sql.connect.proto import GetStatusResponse

    status = GetStatusResponse.OperationStatus
    return {
        status.OPERATION_STATE_RUNNING,
        status.OPERATION_STATE_TERMINATING,
        status.OPERATION_STATE_CANCELLED,
    }


def _release(client: Any) -> None:
    from pyspark.sql.connect.proto import ReleaseSessionRequest

    request = ReleaseSessionRequest(
        session_id=client._session_id, client_type=client._builder.userAgent, allow_reconnect=True
    )
    request.user_context.user_id = client._user_id
    with suppress(Exception):  # the server ends unused sessions after an hour
        client._stub.ReleaseSession(request, metadata=client._builder.metadata(), timeout=10)


def _kill_timeout_seconds(client: Any) -> float:
    from pyspark.sql.connect.proto import ConfigRequest

    wish = ConfigRequest.GetOption(keys=[KILL_TIMEOUT])
    timeout = KILL_TIMEOUT_DEFAULT
    with suppress(Exception):
        found = dict(client.config(ConfigRequest.Operation(get_option=wish)).pairs)
        timeout = found.get(KILL_TIMEOUT) or KILL_TIMEOUT_DEFAULT
    return duration_seconds(timeout) or duration_seconds(KILL_TIMEOUT_DEFAULT) or 0.0


def duration_seconds(text: str) -> float | None:
    """Parse a duration of Spark: 200ms, 2s, 1m."""
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text)
    return int(found[1]) * _UNITS[found[2]] if found and found[2] in _UNITS else None
