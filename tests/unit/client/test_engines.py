"""Engines plug in by entry point: what they fill is no argument, and what cannot work is said early."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stem import InvalidTask, Stem
from stem.client.run.engines import close_engines
from stem.core.errors import InvalidArguments
from stem.core.lifecycle import State
from stem.testing import eager

CODE = """
from stem.contracts.engine import Engine

class Choir(Engine):
    @classmethod
    def fills(cls, parameter, hint):
        return parameter == "voice"
    def run(self, call, parameter, attempt):
        attempt.note(choir={"key": attempt.key})
        return call(**{parameter: "loud"}) if parameter else call()
    def reap(self, key): ...
    def close(self): ...
"""


@pytest.fixture
def choir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that brings an engine, installed as pip would leave it."""
    (tmp_path / "choir.py").write_text(CODE)
    told = tmp_path / "choir-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: choir\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[stem.engines]\nchoir = choir:Choir\nnowhere = no_such_module:Engine\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    close_engines()
    sys.modules.pop("choir", None)


@pytest.fixture
def app() -> Stem:
    return Stem("memory://", max_retries=0)


@pytest.mark.usefixtures("choir")
def test_a_parameter_filled_by_an_engine_is_no_argument_of_the_task(app: Stem) -> None:
    @app.task(name="sing", engine="choir")
    def sing(song: str, voice: Any = None) -> str:
        return f"{song}, {voice}"

    with eager(app):
        handle = app.enqueue("sing", {"song": "Ode"})
        assert handle.get(5) == "Ode, loud"
        assert handle.status().meta["progress"]["choir"] == {"key": f"stem/sing/{handle.id}"}
        with pytest.raises(InvalidArguments, match="voice"):
            app.enqueue("sing", {"song": "Ode", "voice": "soft"})


@pytest.mark.usefixtures("choir")
def test_an_engine_that_is_not_there_or_cannot_be_loaded_is_refused_with_the_task(app: Stem) -> None:
    with pytest.raises(InvalidTask, match=r"no engine 'quire' \(installed: choir, .*\); install"):
        app.task(engine="quire")(_plain)
    with pytest.raises(InvalidTask, match="'nowhere' cannot be loaded"):
        app.task(engine="nowhere")(_plain)


@pytest.mark.usefixtures("choir")
def test_an_engine_runs_plain_functions_in_isolates(app: Stem) -> None:
    async def later() -> None: ...

    with pytest.raises(InvalidTask, match="async def"):
        app.task(engine="choir")(later)
    with pytest.raises(InvalidTask, match="not isolated"):
        app.task(engine="choir", isolate=False)(_plain)


def test_without_pyspark_a_task_on_spark_is_a_dead_letter_that_says_so(
    app: Stem, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.task(name="count", engine="spark")(_counts)
    monkeypatch.setitem(sys.modules, "pyspark", None)  # as Python itself marks what is not to be found
    with eager(app):
        handle = app.enqueue("count")
        assert handle.wait(5).state == State.FAILED
        letter = app.store.deadletters.get(handle.id)
    assert letter is not None and letter.reason == "engine-unavailable" and letter.error is not None
    assert "pip install 'stem-tasks[spark]'" in letter.error.message


def _plain() -> None: ...


def _counts(spark: Any) -> int:
    return int(spark.range(3).count())
