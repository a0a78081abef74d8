"""The built wheel with the `spark` extra and nothing else: every command of the pipeline, and the example."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.source.clean_environment import ROOT, CleanEnvironments, run

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(900)]

APP = """
from stem import Stem

app = Stem("sqlite:///stem.db")

@app.task(name="mail.send")
def send(to: str) -> str:
    if to == "nobody":
        raise ValueError("no such address")
    return to
"""
READ = """
import stem.pipeline

spark = stem.pipeline.session()
print(spark.read.format("stem").option("url", "sqlite:///stem.db").option("table", "tasks").load().count(), "tasks")
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A home of its own. Without a class archive, because writing one takes longer than it saves here."""
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "STEM_SPARK_ARCHIVE": "off"}


@pytest.fixture
def python(environments: CleanEnvironments) -> str:
    return str(environments.with_extra("spark") / "python")


def test_every_command_of_the_pipeline_runs_with_the_extra_alone(
    python: str, env: dict[str, str], tmp_path: Path
) -> None:
    assert "psutil" not in run(python, "-m", "pip", "list")
    (tmp_path / "postoffice.py").write_text(APP)
    (tmp_path / "in.csv").write_text("to\n" + "ada\n" * 9 + "nobody\n")
    (tmp_path / "read.py").write_text(READ)

    def stem(*words: str) -> str:
        return run(python, "-m", "stem", *words, cwd=tmp_path, env=env)

    assert "MISS" not in stem("pipeline", "doctor")
    stem("pipeline", "enqueue", "--app", "postoffice:app", "--task", "mail.send", "--from", "in.csv")
    assert "10 tasks" in run(python, "read.py", cwd=tmp_path, env=env)
    worker = subprocess.Popen(
        [python, "-m", "stem", "worker", "start", "--app", "postoffice:app"], cwd=tmp_path, env=env
    )
    try:
        stem("enqueue", "mail.send", "--arg", "to=ada", "--app", "postoffice:app", "--wait", "120s")
    finally:
        worker.terminate()
        worker.wait(60)
    assert "events are in the lake" in stem("pipeline", "run")
    assert "mail.send" in stem("pipeline", "report")
    assert "succeeded" in stem("pipeline", "sql", "select outcome, count(*) from attempts group by all")
    stem("pipeline", "triage")
    stem("pipeline", "whatif", "--min", "1..2", "--max", "2..4")


def test_the_example_runs_with_the_extra_alone(python: str, env: dict[str, str], tmp_path: Path) -> None:
    place = shutil.copytree(ROOT / "examples/spark_pipeline", tmp_path / "example")
    run(python, "pipeline.py", cwd=place, env=env)
