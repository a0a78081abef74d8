"""Open a Spark session: embedded, on a cluster, or through Spark Connect."""

import contextlib
import importlib.util
import logging
import os
import re
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stem.core.errors import ConfigError, SparkUnavailable
from stem.core.settings.app import PipelineSettings
from stem.pipeline.spark import class_archive, interpreter, java, reachable
from stem.pipeline.spark.spark_errors import MEMORY, brief
from stem.runtime.configfile import configured
from stem.runtime.orphans import children

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A failed partition is tried again, as on a cluster.
DEFAULT_MASTER = "local[*,4]"

PY_FILES = "STEM_SPARK_PY_FILES"

_LOG4J = """rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
"""
_LEVELS = ("off", "fatal", "error", "warn", "info", "debug", "trace")

# Apply unless stem.yaml, the caller or spark-defaults.conf says otherwise.
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Filters that Spark pushes into a Python source stay there for later queries, which then miss rows.
    "spark.sql.python.filterPushdown.enabled": "false",
    # How long the Python of a cancelled job has to end by itself.
    "spark.python.task.killTimeout": "200ms",
    # Writes the two small files of each micro-batch without forking chmod.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_PYTHONS = "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
_JVM_OPTION_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_EMBEDDED = {
    "spark.driver.memory": "640m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def session(
    name: str = "stem",
    *,
    master: str | None = None,
    remote: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> "SparkSession":
    """Return the session of this process; start one if there is none.

    `master` and `remote` default to STEM_SPARK_MASTER and STEM_SPARK_REMOTE, then to the `pipeline` block of stem.yaml,
    then to Spark embedded in a JVM of this process. `conf` overrides stem.yaml. Static settings of a session that is
    already running stay as they are. Raises SparkUnavailable, ConfigError.
    """
    need_pyspark()
    from pyspark.sql import SparkSession

    chosen = _chosen(configured(os.environ).pipeline, master, remote)
    wanted = {**_DEFAULTS, **chosen.conf, **(conf or {})}
    if chosen.remote:
        return shipped(connected(name, chosen.remote, wanted))
    if (active := SparkSession.getActiveSession()) is not None:
        return active
    return shipped(start(name, master=chosen.master or DEFAULT_MASTER, conf=wanted))


def connected(name: str, remote: str, conf: Mapping[str, str]) -> "SparkSession":
    """Open a session through Spark Connect. It needs no Java, and the server's static settings stay. Raises
    SparkUnavailable."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    runtime = {key: value for key, value in conf.items() if key.startswith("spark.sql.") and "python" not in key}
    try:
        reachable.check_connect(remote)
        spark = SparkSession.builder.remote(remote).appName(name).getOrCreate()
        for key, value in runtime.items():
            with contextlib.suppress(Exception):  # a static setting: the server's stays
                spark.conf.set(key, value)
    except ImportError as error:
        raise SparkUnavailable(
            f"Spark Connect needs a package that is not here ({error}); pip install 'stem-tasks[spark]'."
        ) from error
    except SparkUnavailable:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0].replace(_parameters(remote), "***")
        raise SparkUnavailable(
            f"Spark Connect at {_address(remote)} did not answer ({reason}); start its server, or correct STEM_SPARK_REMOTE."
        ) from error
    _silence_query_loggers()
    return spark


def start(
    name: str, *, master: str, conf: Mapping[str, str] | None = None, java_options: Sequence[str] | None = None
) -> "SparkSession":
    """Start a JVM and a classic session in it. Raises SparkUnavailable."""
    from pyspark.sql import SparkSession

    reachable.check_master(master)
    found = java.find()
    is_local = master.startswith("local")
    wanted = {**_DEFAULTS, **(_EMBEDDED if is_local else {}), **(conf or {})}
    settings = {"spark.master": master, "spark.app.name": name, **wanted}
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    options = class_archive.start_options(found) if java_options is None else list(java_options)
    for variable in _PYTHONS:
        os.environ.setdefault(variable, sys.executable)
    with _launching(found, wanted, options, is_local=is_local):
        try:
            _launch_jvm(settings)
            with reachable.registering(master):
                spark = builder.getOrCreate()
        except SparkUnavailable:
            raise
        except Exception as error:
            raise SparkUnavailable(_start_error(master, error)) from error
    _silence_query_loggers()
    _silence_dying_threads(spark)
    if java_options is None and class_archive.is_wanted(found):
        class_archive.write_in_background()
    return spark


def shipped(spark: "SparkSession") -> "SparkSession":
    """Send the files that STEM_SPARK_PY_FILES names to where this session runs Python. Raises ConfigError."""
    for path in filter(None, os.environ.get(PY_FILES, "").split(",")):
        if not Path(path).is_file() or Path(path).suffix not in (".py", ".zip", ".egg"):
            raise ConfigError(
                f"{path} cannot be sent to executors; name .py or .zip files in --py-files or {PY_FILES}."
            )
        if getattr(spark, "_sc", None) is None:
            spark.addArtifacts(path, pyfile=True)
        else:
            spark.sparkContext.addPyFile(path)
    return spark


def need_pyspark() -> None:
    """Raises SparkUnavailable."""
    for package in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(package) is None:
            raise SparkUnavailable(
                f"The pipeline needs {package}, which is not installed; pip install 'stem-tasks[spark]'."
            )


def _chosen(settings: PipelineSettings, master: str | None, remote: str | None) -> PipelineSettings:
    """The caller's choice goes before the settings'. Raises ConfigError if the caller names both."""
    if master and remote:
        raise ConfigError("A Spark master and a Spark Connect address were both given; choose one.")
    if master or remote:
        return PipelineSettings(master=master, remote=remote, lake=settings.lake, conf=settings.conf)
    return settings


@contextlib.contextmanager
def _launching(found: java.Java, conf: Mapping[str, str], options: Sequence[str], *, is_local: bool) -> Iterator[None]:
    """Set the environment variables from which the JVM takes its options when it starts."""
    from pyspark.find_spark_home import _find_spark_home

    submit = ["--driver-memory", conf["spark.driver.memory"]] if "spark.driver.memory" in conf else []
    users = conf.get("spark.driver.extraJavaOptions", "")
    own = " ".join(
        [
            *map(_quoted, [f"-Dlog4j2.configurationFile={_log4j(found)}", *options]),
            *garbage_collector(f"{' '.join(options)} {users}"),
            users,
        ]
    )
    env = {
        "JAVA_HOME": str(found.home),
        "SPARK_HOME": _find_spark_home(),  # else a script asks another Python for it
        "PYSPARK_SUBMIT_ARGS": " ".join(
            [*submit, f"--driver-java-options {shlex.quote(own.strip())}", "pyspark-shell"]
        ),
    }
    if is_local:
        env["SPARK_LOCAL_IP"] = "127.0.0.1"
        env["PYTHONPATH"] = os.pathsep.join(_own_paths())
        python, env["PATH"] = interpreter.on_path(interpreter.command(found.home))
        env.update({name: python for name in _PYTHONS if os.environ[name] == sys.executable})
    before = {key: os.environ.get(key) for key in env}
    os.environ.update(env)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def garbage_collector(given: str) -> list[str]:
    """The collector that costs a small heap least. None if the options `given`, or the user's environment, name one: with
    two, a JVM does not start."""
    options = [given, *(os.environ.get(variable, "") for variable in _JVM_OPTION_VARIABLES)]
    return [] if any(map(_COLLECTOR.search, options)) else ["-XX:+UseParallelGC"]


def _launch_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM if there is none. If that fails or is interrupted, kill it: a JVM that starts ignores Ctrl-C, and would
    print a stack trace later."""
    from pyspark import SparkConf, SparkContext

    before = set(children())
    try:
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))
    except BaseException:
        for pid in set(children()) - before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise


def _quoted(option: str) -> str:
    """Quote for Spark's launcher, which splits options at spaces; a folder's name may have one."""
    return '"' + option.replace("\\", r"\\").replace('"', r"\"") + '"' if re.search(r'[\s"\\]', option) else option


def _own_paths() -> list[str]:
    """The folders from which this process imports the user's code, for the Python of an embedded Spark."""
    installed = os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix)
    there = (os.path.realpath(path) for path in sys.path)  # the empty path is the working directory
    return [path for path in dict.fromkeys(there) if os.path.isdir(path) and not path.startswith(installed)]


def _log4j(found: java.Java) -> Path:
    """Turn off Spark's log unless STEM_SPARK_LOG names a level: failures reach Python as exceptions."""
    level = _log_level()
    path = found.home / f"log4j2-{level}.properties"
    if not path.is_file():
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        fresh.write_text(_LOG4J.format(level=level))
        fresh.rename(path)
    return path


def _log_level() -> str:
    level = os.environ.get("STEM_SPARK_LOG", "off").lower()
    if level not in _LEVELS:
        raise ConfigError(f"STEM_SPARK_LOG is {level!r}; use one of {', '.join(_LEVELS)}.")
    return level


def _silence_query_loggers() -> None:
    """PySpark logs every failed query as ten kilobytes of JSON and raises it as well."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True


def _silence_dying_threads(spark: "SparkSession") -> None:
    """A thread of the JVM that dies, for lack of memory for example, prints its stack trace; its caller gets an exception
    anyway."""
    if _log_level() != "off":
        return
    with contextlib.suppress(Exception):  # only the output is at stake
        jvm: Any = spark.sparkContext._jvm
        invoke, lang = jvm.java.lang.invoke, jvm.java.lang
        shape = invoke.MethodType.fromMethodDescriptorString("(Ljava/lang/Thread;Ljava/lang/Throwable;)V", None)
        kind = lang.Class.forName("java.lang.Thread$UncaughtExceptionHandler")
        nothing = invoke.MethodHandleProxies.asInterfaceInstance(kind, invoke.MethodHandles.empty(shape))
        lang.Thread.setDefaultUncaughtExceptionHandler(nothing)


def _start_error(master: str, error: Exception) -> str:
    text = str(error)
    if "JAVA_GATEWAY_EXITED" in text:
        return (
            "Spark's JVM ended before it answered; run 'stem pipeline doctor', and STEM_SPARK_LOG=info to see its log."
        )
    if "INVALID_DRIVER_MEMORY" in text:
        return f"Spark's driver has too little memory to start with ({brief(text)}); set {MEMORY} to 512m or more."
    return f"Spark at {master} could not be started ({brief(text)}); check the address, or run 'stem pipeline doctor'."


def _address(remote: str) -> str:
    """The address without its parameters, which may hold a token."""
    return remote.partition(";")[0]


def _parameters(remote: str) -> str:
    return remote.partition(";")[2] or remote
