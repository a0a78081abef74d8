"""The built wheel with the `spark` extra and nothing else: every command of the pipeline, and the example."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(900)

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


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment that holds none of the packages that only our development needs."""
    place = tmp_path_factory.mktemp("clean")
    locked = "".join((ROOT / "requirements" / name).read_text() for name in ("build.txt", "demo.txt"))
    pins = set(re.findall(r"^[\w.\-]+==[^\s;]+(?: ; .+?)?(?= \\)", locked, re.MULTILINE))
    (place / "pins.txt").write_text("\n".join(sorted(pins)))
    pip = ("-m", "pip", "--disable-pip-version-check", "--quiet")
    run(sys.executable, *pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(place), str(ROOT))
    run(sys.executable, "-m", "venv", str(place / "environment"))
    python = place / "environment/bin/python"
    install = (str(python), *pip, "install", "--constraint", str(place / "pins.txt"))
    run(*install, "setuptools", "wheel")
    (wheel,) = place.glob("*.whl")
    run(*install, "--no-build-isolation", f"stem-tasks[spark] @ {wheel.as_uri()}")
    return python


def test_every_command_of_the_pipeline_runs_with_the_extra_alone(python: Path, tmp_path: Path) -> None:
    assert "psutil" not in run(str(python), "-m", "pip", "list")
    (tmp_path / "postoffice.py").write_text(APP)
    (tmp_path / "in.csv").write_text("to\n" + "ada\n" * 9 + "nobody\n")
    (tmp_path / "read.py").write_text(READ)
    env = {**os.environ, "HOME": str(tmp_path), "STEM_CACHE_DIR": str(tmp_path / "cache"), "STEM_SPARK_ARCHIVE": "off"}

    def stem(*words: str) -> str:
        return run(str(python), "-m", "stem", *words, cwd=tmp_path, env=env)

    assert "MISS" not in stem("pipeline", "doctor")
    stem("pipeline", "enqueue", "--app", "postoffice:app", "--task", "mail.send", "--from", "in.csv")
    assert "10 tasks" in run(str(python), "read.py", cwd=tmp_path, env=env)
    worker = subprocess.Popen(
        [str(python), "-m", "stem", "worker", "start", "--app", "postoffice:app"], cwd=tmp_path, env=env
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


def test_the_example_runs_with_the_extra_alone(python: Path, tmp_path: Path) -> None:
    place = shutil.copytree(ROOT / "examples/spark_pipeline", tmp_path / "example")
    run(str(python), "pipeline.py", cwd=place, env={**os.environ, "HOME": str(tmp_path), "STEM_SPARK_ARCHIVE": "off"})


def run(*command: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
