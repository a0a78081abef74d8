"""Sessions that users build themselves, as they would write it, in an environment that is not activated."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from stem.backends import connect
from stem.core.settings.app import Settings
from support.pipeline.spark_jobs import connect_server
from support.pipeline.written_history import live

CONFIGURED = """
import stem.pipeline
from pyspark.sql import SparkSession

spark = stem.pipeline.configure(SparkSession.builder.master("local[1]")).getOrCreate()
print(spark.read.format("stem").option("url", "{url}").load().count(), "events")
"""
USED = """
import stem.pipeline
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").getOrCreate()
stem.pipeline.use(spark)
print(spark.read.format("stem").option("url", "{url}").load().count(), "events")
"""
CONNECTED = """
import stem.pipeline
from pyspark.sql import SparkSession

spark = stem.pipeline.use(SparkSession.builder.remote("{remote}").getOrCreate())
print(spark.read.format("stem").option("url", "{url}").load().count(), "events")
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/stem.db"
    store = connect(url, Settings())
    live(store, 20)
    store.upkeep.close()
    return url


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """As a notebook's server or a service has it: a `python3` on the PATH that knows neither Stem nor PySpark."""
    real = Path(sys.executable).resolve().parent
    kept = {"HOME": str(tmp_path), "STEM_CACHE_DIR": os.environ["STEM_CACHE_DIR"], "STEM_SPARK_ARCHIVE": "off"}
    return {"PATH": f"{real}:/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1", **kept}


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with connect_server(tmp_path_factory.mktemp("server")) as running:
        yield running.address


def ran(tmp_path: Path, text: str, env: dict[str, str], *command: str) -> str:
    script = tmp_path / "notebook.py"
    script.write_text(text)
    done = subprocess.run([*command, str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", [CONFIGURED, USED], ids=["configure", "use"])
def test_a_notebook_that_is_not_activated_reads_a_store(
    tmp_path: Path, url: str, bare: dict[str, str], script: str
) -> None:
    assert " events" in ran(tmp_path, script.format(url=url), bare, sys.executable)


@pytest.mark.parametrize("script", [CONFIGURED, USED], ids=["configure", "use"])
def test_a_program_under_spark_submit_reads_a_store(
    tmp_path: Path, url: str, bare: dict[str, str], script: str
) -> None:
    submit = Path(pyspark.__file__).parent / "bin/spark-submit"
    env = {**bare, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": sys.executable}
    assert " events" in ran(tmp_path, script.format(url=url), env, str(submit), "--master", "local[1]")


def test_a_client_of_spark_connect_reads_a_store(tmp_path: Path, url: str, bare: dict[str, str], remote: str) -> None:
    assert " events" in ran(tmp_path, CONNECTED.format(url=url, remote=remote), bare, sys.executable)
