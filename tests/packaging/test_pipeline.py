"""The built wheel with the `spark` extra and nothing else: every command of the pipeline, and the example."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from support.source.clean_environment import ROOT, CleanEnvironments, run
from support.until import until

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


def test_the_command_of_the_deployed_pipeline_fills_the_lake_until_it_is_stopped(
    python: str, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "postoffice.py").write_text(APP)
    run(python, "-m", "stem", "deploy", "init", "k8s", "--app", "postoffice:app", cwd=tmp_path, env=env)
    document = next(yaml.safe_load_all((tmp_path / "deploy/k8s/pipeline.yaml").read_text()))
    words = document["spec"]["template"]["spec"]["containers"][0]["args"]
    lake = tmp_path / "lake"
    words = [word.replace("--lake=/lake", f"--lake={lake}") for word in words]
    run(
        python,
        "-m",
        "stem",
        "enqueue",
        "mail.send",
        "--arg",
        "to=ada",
        "--app",
        "postoffice:app",
        cwd=tmp_path,
        env=env,
    )
    pipeline = subprocess.Popen([python, "-m", "stem", *words], cwd=tmp_path, env=env, stdout=subprocess.PIPE)
    try:
        until(lambda: any(lake.rglob("*.parquet")) or pipeline.poll() is not None, seconds=180, every=0.2)
        assert pipeline.poll() is None
        pipeline.terminate()
        told, _ = pipeline.communicate(timeout=60)
    finally:
        pipeline.kill()
        pipeline.wait()
    assert pipeline.returncode == 0 and "events" in json.loads(told)  # none if it was stopped within its first batch


def test_the_example_runs_with_the_extra_alone(python: str, env: dict[str, str], tmp_path: Path) -> None:
    place = shutil.copytree(ROOT / "examples/spark_pipeline", tmp_path / "example")
    run(python, "pipeline.py", cwd=place, env=env)
