"""Where settings come from, and how the store is opened, shared and closed."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stem import ConfigError, Delays, Exponential, InvalidTask, Settings, Stem, UnknownTask, UsageError
from stem.client.store_connection import StoreConnection
from stem.client.task.definition import default_name
from stem.contracts.store import Store
from stem.core.settings.app import Retention


def test_an_argument_counts_before_the_environment_and_that_before_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEM_BROKER_URL", "memory://environment")
    monkeypatch.setenv("STEM_NAMESPACE", "there")
    app = Stem(namespace="here", max_args_bytes=99)
    assert (app.settings.broker_url, app.settings.namespace) == ("memory://environment", "here")
    assert app.settings.max_args_bytes == 99
    assert Stem("memory://argument").settings.broker_url == "memory://argument"


def test_given_settings_stand_in_for_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEM_BROKER_URL", "memory://environment")
    assert Stem(settings=Settings(namespace="mine")).settings.broker_url == "sqlite:///stem.db"


@pytest.mark.parametrize(
    "wrong",
    [
        {"namespace": "a b"},
        {"namespace": ""},
        {"namespace": 5},
        {"broker_url": 5},
        {"results_url": 5},
        {"signing_keys": 5},
        {"max_args_bytes": 0},
        {"max_args_bytes": True},
        {"queue": "a b"},
        {"max_retries": -1},
        {"retry": Exponential(jitter="x")},  # type: ignore[arg-type]
        {"retry": Delays(5)},  # type: ignore[arg-type]
        {"settings": Settings(namespace="a}b")},
        {"settings": Settings(namespace="n" * 500)},
        {"settings": Settings(timeout_seconds=-1)},
        {"settings": Settings(timeout_seconds=float("nan"))},
        {"settings": Settings(timeout_seconds=1e10)},
        {"settings": Settings(max_args_bytes=1.5)},  # type: ignore[arg-type]
        {"settings": Settings(retention=Retention(results_seconds=0))},
        {"settings": Settings(retention=Retention(events_count=10**30))},
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused_when_the_app_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Stem(**{"broker_url": "memory://", **wrong})


def test_nothing_is_opened_until_it_is_needed() -> None:
    app = Stem("nonsense://host")
    app.close()
    with pytest.raises(ConfigError, match="not a store that Stem knows"):
        _ = app.store


def test_threads_share_one_store(app: Stem) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert len({id(store) for store in threads.map(lambda _: app.store, range(32))}) == 1


def test_a_closed_app_opens_again_when_used(app: Stem) -> None:
    before = app.store
    app.close()
    assert app.store is not before


def test_a_relative_path_means_the_same_file_after_the_working_directory_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sp ace%").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "sp ace%")
    app = Stem("sqlite:///tasks.db")
    handle = app.enqueue("work", check=False)
    monkeypatch.chdir(tmp_path / "elsewhere")
    app.close()
    assert handle.status().state == "queued"
    app.close()
    assert list((tmp_path / "elsewhere").iterdir()) == []


class ClosedMeanwhile(StoreConnection):
    """Another thread closes it after every look at the store."""

    @property
    def _store(self) -> Store | None:
        found: Store | None = vars(self).pop("open", None)
        return found

    @_store.setter
    def _store(self, store: Store | None) -> None:
        vars(self)["open"] = store


def test_a_store_that_another_thread_closes_is_still_a_store(app: Stem) -> None:
    store_connection = ClosedMeanwhile(app.settings, app.store_connection.keyring, app.store_connection.clock)
    store_connection._store = app.store
    assert store_connection.store is app.store


def test_a_forked_child_opens_a_store_of_its_own(tmp_path: Path) -> None:
    script = """
import os, sys
from stem import Stem
app = Stem("memory://fork")
before = app.store
child = os.fork()
if child == 0:
    os._exit(0 if app.store is not before else 1)
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) or app.store is not before)
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, timeout=30)


def test_import_is_light() -> None:
    script = """
import sys
from stem import Stem
heavy = {"redis", "psycopg", "cryptography", "rich", "asyncio", "sqlite3", "click", "cronsim", "astral"} & sys.modules.keys()
sys.exit(f"imported: {heavy}" if heavy else 0)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)


def test_every_public_name_is_there() -> None:
    import stem

    for name in dir(stem):
        assert getattr(stem, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = stem.nonsense


def test_a_task_is_named_after_module_and_function(app: Stem) -> None:
    @app.task
    def local() -> None: ...

    assert local.name == default_name(local.definition.function)
    assert local.name.endswith("test_app.test_a_task_is_named_after_module_and_function.<locals>.local")
    assert app.tasks[local.name] is local


def test_a_script_names_its_tasks_as_an_import_of_it_would(tmp_path: Path) -> None:
    script = "from stem import Stem\napp = Stem('memory://')\n@app.task\ndef work(): ...\nprint(work.name)\n"
    (tmp_path / "shop.py").write_text(script)
    for command in (["shop.py"], ["-m", "shop"]):
        done = subprocess.run(
            [sys.executable, *command], check=True, cwd=tmp_path, capture_output=True, text=True, timeout=30
        )
        assert done.stdout.strip() == "shop.work"


def test_children_of_multiprocessing_know_the_tasks_by_the_same_names_and_can_be_sent_them(tmp_path: Path) -> None:
    script = """
import multiprocessing as mp
from stem import Stem
app = Stem("memory://")
@app.task
def job(n: int) -> int:
    return 2 * n
def name(_):
    return job.name
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        with mp.get_context(method).Pool(1) as pool:
            print(*pool.map(name, [1]), *pool.map(job, [4]))
"""
    (tmp_path / "shop.py").write_text(script)
    for command in (["shop.py"], ["-m", "shop"]):
        done = subprocess.run(
            [sys.executable, *command], check=True, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.stdout.splitlines() == ["shop.job 8"] * 3


def test_closures_over_different_values_are_different_functions(app: Stem) -> None:
    def make(factor: int) -> None:
        app.task(name="work")(lambda number: number * factor)

    make(2)
    make(2)
    with pytest.raises(InvalidTask, match="Two functions have the task name work"):
        make(3)


def test_a_function_that_names_itself_may_be_made_again(app: Stem) -> None:
    def make() -> None:
        @app.task(name="work")
        def work(number: int) -> None:
            work.enqueue(number - 1)

    make()
    make()
    assert list(app.tasks) == ["work"]


def test_two_functions_cannot_be_one_task(app: Stem) -> None:
    app.task(name="work")(lambda: 1)
    with pytest.raises(InvalidTask, match="Two functions have the task name work"):
        app.task(name="work")(lambda: 2)


def test_the_same_function_made_again_replaces_itself(app: Stem) -> None:
    def make() -> None:
        @app.task(name="work")
        def work() -> int:
            return 1

    make()
    make()
    assert list(app.tasks) == ["work"]


def test_an_unknown_name_is_refused_with_the_nearest_one(app: Stem) -> None:
    app.task(name="mail.send")(lambda: None)
    with pytest.raises(UnknownTask, match=r"did you mean mail\.send"):
        app.enqueue("mail.sent")
    assert app.store.broker.depth() == {}


def test_a_task_whose_code_is_elsewhere_can_be_sent_unchecked(app: Stem) -> None:
    handle = app.enqueue("far.away", args={"anything": [1, 2]}, check=False, queue="far", priority=7)
    record = handle.status()
    assert (record.name, record.queue, record.priority) == ("far.away", "far", 7)


def test_the_clock_of_the_app_dates_the_envelope() -> None:
    with Stem("memory://clock", clock=lambda: 1_700_000_000.0) as app:
        app.enqueue("x", check=False)
        envelope = app.store.broker.claim(["default"], limit=1, lease_seconds=9)[0].envelope
    assert envelope.enqueued_at == datetime.fromtimestamp(1_700_000_000, UTC)
    assert envelope.id.startswith("018bcfe5-6800-7")
