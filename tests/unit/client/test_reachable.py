"""What a worker cannot import is refused or warned of when it is sent, not found out there."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from stem import InvalidTask, Stem
from stem.client import reachable
from stem.testing import eager

SESSION = """
from stem import Stem, Worker
app = Stem("sqlite:///stem.db")

@app.task
def add(a: int, b: int) -> int:
    return a + b

try:
    add.enqueue(1, 2)
except Exception as error:
    print(error)
app.task(name="elsewhere")(add.definition.function).enqueue(1, 2)
with Worker(app, in_process=True):
    print(add.enqueue(1, 2).get(20))
app.close()
"""


CHANGED_CELL = """
from stem import Stem
from stem.testing import eager
app = Stem("memory://cells")
for body in ("n + 1", "n * 100"):
    exec(f"@app.task(name='work')\\ndef work(n: int) -> int: return {body}")
with eager(app):
    print(work.enqueue(2).get(), app.enqueue("work", {"n": 2}).get())
"""


def test_a_cell_of_a_notebook_that_is_changed_and_run_again_replaces_its_task() -> None:
    command = [sys.executable, "-c", CHANGED_CELL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "200 200\n"


def test_a_lambda_needs_a_name() -> None:
    app = Stem("memory://lambda")
    with pytest.raises(InvalidTask, match="A lambda has no name to travel by; write a def"):
        app.task(lambda: 1)
    assert app.task(name="named")(lambda: 1)() == 1


def test_a_task_of_a_session_is_refused_unless_it_runs_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SESSION], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    refusal, value = done.stdout.splitlines()
    assert refusal.startswith("Task __main__.add is defined in an interactive session") and value == "3"


def test_a_task_within_a_function_draws_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachable, "_warned", set())

    def sent(url: str) -> int:
        with Stem(url) as app:

            @app.task
            def inner() -> int:
                return 1

            before = len(caplog.records)
            inner.enqueue()
            inner.options(delay=5).enqueue()
            with eager(app):
                inner.options(delay=5).enqueue()
            return len(caplog.records) - before

    with caplog.at_level(logging.WARNING, "stem.client"):
        assert sent(f"sqlite:///{tmp_path}/stem.db") == 1
        assert sent("memory://within") == 0
    assert "is defined inside a function" in caplog.text


def test_a_task_that_a_factory_makes_at_import_is_fine(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(
        "from stem import Stem\ndef make():\n    app = Stem()\n    @app.task\n    def add() -> int:\n        return 1\n"
        "    return app\napp = make()\n"
    )
    check = "import made\nassert all(t.definition.is_made_at_import for t in made.app.tasks.values())"
    subprocess.run([sys.executable, "-c", check], cwd=tmp_path, check=True, timeout=60)
