"""Stem in a Flask application: its config names the store, its context surrounds tasks, `flask stem` is the command."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask, current_app
from sqlalchemy import create_engine, text
from sqlalchemy.orm import scoped_session, sessionmaker

from stem import ConfigError, UsageError
from stem.integrations.flask import FlaskStem
from stem.testing import eager, run_pending


def shop(place: Path, **config: object) -> tuple[Flask, FlaskStem]:
    flask = Flask("shop")
    flask.config.update(STEM_BROKER_URL=f"sqlite:///{place}/shop.db", GREETING="Hello", **config)
    stem = FlaskStem()
    stem.init_app(flask)
    return flask, stem


def test_the_config_names_the_store_and_its_mistakes_are_sentences(tmp_path: Path) -> None:
    _, stem = shop(tmp_path, STEM_NAMESPACE="flask", STEM_TLS_VERIFY=False, STEM_RESULT_TTL="1h")
    settings = stem.store_connection.settings
    assert (settings.namespace, settings.tls.verify, settings.retention.results_seconds) == ("flask", False, 3600)
    with pytest.raises(ConfigError, match="STEM_RESULT_TTL='soon' is not"):
        shop(tmp_path, STEM_RESULT_TTL="soon")
    assert stem.store.url.endswith("shop.db")
    with pytest.raises(UsageError, match="open already; call init_app before"):
        stem.init_app(Flask("late"))
    stem.close()


@pytest.mark.parametrize("is_eager", [True, False], ids=["eager", "by a worker"])
def test_a_task_runs_inside_the_context_of_the_application(tmp_path: Path, is_eager: bool) -> None:
    _, stem = shop(tmp_path)
    ended: list[str] = []
    stem.flask.teardown_appcontext(lambda _: ended.append("context"))

    @stem.task(name="greet")
    def greet(name: str) -> str:
        return f"{current_app.config['GREETING']}, {name}"

    @stem.task(name="agreet")
    async def agreet(name: str) -> str:
        return f"{current_app.config['GREETING']}, {name}"

    if is_eager:
        with eager(stem):
            assert [greet.enqueue("Ada").get(), agreet.enqueue("Bob").get()] == ["Hello, Ada", "Hello, Bob"]
    else:
        handles = [greet.enqueue("Ada"), agreet.enqueue("Bob")]
        run_pending(stem)
        assert [each.get(5) for each in handles] == ["Hello, Ada", "Hello, Bob"]
    assert ended == ["context", "context"]
    stem.close()


def test_a_task_joins_the_transaction_of_a_scoped_session(tmp_path: Path) -> None:
    """As Flask-SQLAlchemy's `db.session` is one."""
    _, stem = shop(tmp_path)
    stem.task(name="work")(lambda number=1: number)
    session = scoped_session(sessionmaker(create_engine(f"sqlite:///{tmp_path}/shop.db")))
    assert stem.store.broker.depth() == {}
    for end, waiting in ((session.rollback, 0), (session.commit, 1)):
        session.execute(text("SELECT 1"))
        stem.tasks["work"].options(connection=session).enqueue(1)
        end()
        depth = stem.store.broker.depth().get("default")
        assert (0 if depth is None else depth.ready) == waiting
    session.remove()
    session.get_bind().dispose()  # type: ignore[union-attr]
    stem.close()


FACTORY = """
from flask import Flask, current_app
from stem.integrations.flask import FlaskStem

stem = FlaskStem()

@stem.task(name="greet")
def greet(name: str) -> str:
    return f"{current_app.config['GREETING']}, {name}"

def create_app() -> Flask:
    flask = Flask("shop")
    flask.config.update(STEM_BROKER_URL="sqlite:///shop.db", GREETING="Hello")
    stem.init_app(flask)
    return flask
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "shop.py").write_text(FACTORY)
    with (tmp_path / "worker.log").open("wb") as log:
        process = subprocess.Popen([*flask_stem(), "worker", "start", "--concurrency", "1"], cwd=tmp_path, stderr=log)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


@pytest.mark.usefixtures("worker")
def test_flask_stem_runs_workers_and_commands_for_an_application_factory(tmp_path: Path) -> None:
    command = [*flask_stem(), "enqueue", "greet", "--arg", "name=Ada", "--wait", "30s", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr + (tmp_path / "worker.log").read_text()
    assert json.loads(done.stdout)["result"] == "Hello, Ada"
    helped = subprocess.run([*flask_stem(), "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "stem worker start" in helped.stdout and (tmp_path / "shop.db").exists()


def flask_stem() -> list[str]:
    return [sys.executable, "-m", "flask", "--app", "shop:create_app", "stem"]


def test_an_application_without_stem_is_told_to_have_it(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text("from flask import Flask\napp = Flask('bare')\n")
    command = [sys.executable, "-m", "stem", "task", "list", "--app", "stem.integrations.flask:app"]
    environment = {**os.environ, "FLASK_APP": "bare"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 64
    assert done.stderr == "error: The Flask application 'bare' has no Stem; call init_app with it.\n"
