"""`stem schedule` and `stem beat`, as typed in a shell."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from acceptance.shell import STEM, Shell
from support.until import until

APP = """
from stem import Stem

app = Stem()


@app.schedule("every 1 second", args={"text": "tick"})
@app.task
def note(text: str) -> str:
    return text
"""


@pytest.fixture
def on_sqlite(shell: Shell, tmp_path: Path) -> Shell:
    """For what no store has a say in."""
    return shell.at(STEM_BROKER_URL=f"sqlite:///{tmp_path}/stem.db")


@pytest.fixture
def beat(stem: Shell) -> Iterator[subprocess.Popen[str]]:
    (stem.directory / "clockwork.py").write_text(APP)
    process = subprocess.Popen(
        [STEM, "beat", "--app", "clockwork:app", "--name", "metronome"],
        cwd=stem.directory,
        env=stem.variables,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def test_a_beat_fires_shows_itself_and_obeys(stem: Shell, beat: subprocess.Popen[str]) -> None:
    until(lambda: _runs(stem) >= 2, seconds=30)
    (entry,) = stem.json("schedule", "list")["schedules"]
    assert (entry["id"], entry["words"], entry["origin"]) == ("clockwork.note", "Every second", "clockwork:app")
    assert stem.json("task", "list")["tasks"][0]["meta"]["schedule"] == "clockwork.note"
    status = until(lambda: stem.json("worker", "status")["workers"], seconds=20)
    assert (status[0]["workerId"], status[0]["extras"]["kind"]) == ("metronome", "scheduler")
    assert "metronome" in stem.out("worker", "ping")
    assert "metronome" in stem.out("worker", "stats")
    stem.out("worker", "shutdown", "--worker", "metronome")
    assert beat.wait(timeout=20) == 0


def test_a_beat_ends_with_a_signal_and_says_what_it_did(stem: Shell, beat: subprocess.Popen[str]) -> None:
    until(lambda: _runs(stem) >= 1, seconds=30)
    beat.send_signal(signal.SIGTERM)
    assert beat.wait(timeout=20) == 0
    assert beat.stderr is not None
    told = beat.stderr.read()
    for event in ("beat.started", "beat.promoted", "schedule.fired", "beat.stopped"):
        assert event in told
    assert "Traceback" not in told


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_worker_with_beat_schedules_runs_and_takes_its_scheduler_along(stem: Shell, how: signal.Signals) -> None:
    (stem.directory / "clockwork.py").write_text(APP)
    words = [STEM, "worker", "start", "--app", "clockwork:app", "--beat"]
    with (stem.directory / "worker.log").open("wb") as log:
        process = subprocess.Popen(words, cwd=stem.directory, env=stem.variables, stderr=log)
    try:
        until(lambda: _succeeded(stem), seconds=30)
        (beat,) = [each for each in psutil.Process(process.pid).children() if "beat" in each.cmdline()]
        process.send_signal(how)
        process.wait(timeout=30)
        until(lambda: not beat.is_running() or beat.status() == psutil.STATUS_ZOMBIE)
    finally:
        process.kill()
        process.wait()


def _succeeded(stem: Shell) -> bool:
    done = stem.run("task", "list", "--state", "succeeded", "--json")
    return done.returncode == 0 and '"clockwork.note"' in done.stdout


def _runs(stem: Shell) -> int:
    done = stem.run("schedule", "list", "--json")
    if done.returncode:
        return 0  # no store yet
    import json

    return max((entry["runCount"] for entry in json.loads(done.stdout)["schedules"]), default=0)


def test_schedules_are_added_shown_changed_and_removed(stem: Shell) -> None:
    stem.out("enqueue", "something")
    added = stem.out("schedule", "add", "nightly", "--task", "report", "--spec", "0 2 * * *", "--arg", "day=1")
    assert added.startswith("nightly: At 02:00 every day; next ")
    assert "nightly" in stem.out("schedule", "list")
    assert "At 02:00 every day" in stem.out("schedule", "show", "nightly")
    assert "already" in stem.refusal("schedule", "add", "nightly", "--task", "x", "--spec", "@daily", code=64)
    stem.out("schedule", "add", "nightly", "--task", "report", "--spec", "@hourly", "--replace")
    assert "disabled" in stem.out("schedule", "disable", "nightly", "--note", "holidays")
    assert _entry(stem)["note"] == "holidays" and not _entry(stem)["isEnabled"]
    stem.out("schedule", "enable", "nightly")
    assert _entry(stem)["isEnabled"] and _entry(stem)["version"] == 4
    task_id = stem.out("schedule", "run", "nightly")
    assert stem.json("task", "show", task_id)["name"] == "report"
    period = ("--since", "2030-01-01T00:00Z", "--until", "2030-01-01T05:00Z")
    assert stem.out("schedule", "backfill", "nightly", *period) == "Enqueued 6."
    assert stem.out("schedule", "backfill", "nightly", *period) == "Enqueued 0."
    assert stem.out("schedule", "remove", "nightly", "--yes") == "Removed nightly."
    assert "There are no schedules" in stem.out("schedule", "list")


def _entry(stem: Shell) -> dict[str, Any]:
    shown: dict[str, Any] = stem.json("schedule", "show", "nightly")
    return shown


def test_schedules_travel_as_a_file(stem: Shell, tmp_path: Path) -> None:
    stem.out("enqueue", "something")
    stem.out("schedule", "add", "a", "--task", "report", "--spec", "0 2 * * *", "--time-zone", "Europe/Berlin")
    path = tmp_path / "schedules.yaml"
    path.write_text(stem.out("schedule", "export"))
    stem.out("schedule", "remove", "a", "--yes")
    assert stem.out("schedule", "apply", "-f", str(path)) == "Changed 1 of 1."
    assert stem.out("schedule", "apply", "-f", str(path)) == "Changed 0 of 1."
    assert stem.json("schedule", "show", "a")["timeZone"] == "Europe/Berlin"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("schedules: [{id: a, task: t, spec: '0 0 31 2 *'}]", "never comes"),
        ("schedules: [{id: a, task: t, spec: '@daily', colour: red}]", "line 1: schedule a is wrong"),
        (
            "schedules: [{id: a, task: t, spec: '@daily'}, {id: a, task: t, spec: '@daily'}]",
            "two schedules have the id a",
        ),
        ("- nothing", "holds a list"),
        ("worker: {}", "there is no list `schedules`"),
        ("schedules: 7", "line 1: there is no list `schedules`"),
        ("schedules: [", "line 1: "),
        ("schedules:\n- id: a\n  task: t\n  spec: '@daily'\n  maxRuns: many", "line 5: schedule a is wrong"),
        ("schedules:\n- {id: a, task: t, spec: '@daily', seal: 'k1:x'}", "line 2: schedule a is wrong"),
        (
            "schedules:\n  a:\n    task: t\n    spec: '@daily'\n    options: {colour: red}",
            "line 2: schedule a: There is no",
        ),
        ("schedules:\n  a: nightly", "line 2: schedule a is wrong"),
    ],
)
def test_a_file_with_a_mistake_changes_nothing(on_sqlite: Shell, tmp_path: Path, text: str, sentence: str) -> None:
    on_sqlite.out("enqueue", "something")
    path = tmp_path / "schedules.yaml"
    path.write_text(text)
    assert sentence in on_sqlite.refusal("schedule", "apply", "-f", str(path), code=64)
    assert on_sqlite.json("schedule", "list")["schedules"] == []


def test_a_beat_fires_what_the_configuration_file_declares(stem: Shell) -> None:
    (stem.directory / "stem.yaml").write_text("schedules:\n  ticking: {task: nowhere.tick, spec: every 1 second}\n")
    process = subprocess.Popen([STEM, "beat"], cwd=stem.directory, env=stem.variables, stderr=subprocess.PIPE)
    try:
        until(lambda: _runs(stem) >= 1, seconds=30)
    finally:
        process.terminate()
        process.communicate()
    assert stem.json("schedule", "show", "ticking")["source"] == "file"
    assert "the configuration file" in stem.out("schedule", "show", "ticking")
    assert stem.out("schedule", "list").splitlines()[1].split()[-1] == "file"


def test_a_mistake_in_the_configuration_file_is_reported_with_its_line(on_sqlite: Shell) -> None:
    (on_sqlite.directory / "stem.yaml").write_text(
        "worker: {app: 'nothing:app'}\nschedules:\n- {id: a, task: t, spec: '@daily'}\n- {id: b, task: t, spec: 61 * * * *}\n"
    )
    sentence = "stem.yaml, line 4: schedule b: '61' is no minute of a cron expression: it must be 0 to 59."
    assert on_sqlite.refusal("beat", code=64) == sentence
    assert on_sqlite.refusal("worker", "start", "--beat", code=64) == sentence
    checked = on_sqlite.run("config", "check")
    assert (checked.returncode, checked.stdout.count("error: ")) == (64, 1) and f"error: {sentence}" in checked.stdout


def test_config_check_names_the_schedules_of_the_file(on_sqlite: Shell) -> None:
    (on_sqlite.directory / "stem.yaml").write_text("schedules:\n- {id: a, task: t, spec: '@daily'}\n")
    report = on_sqlite.json("config", "check")
    assert (report["status"], report["warnings"]) == ("ok", [])
    (row,) = [each for each in report["options"] if each["option"] == "schedules"]
    assert (row["value"], row["source"], row["name"]) == (["a"], "file", "stem.yaml")
    (on_sqlite.directory / "stem.yaml").write_text("schedule:\n- {id: a, task: t, spec: '@daily'}\n")
    assert "did you mean schedules?" in on_sqlite.json("config", "check")["warnings"][0]


def test_a_schedule_that_cannot_be_read_is_told_when_the_app_is_imported(on_sqlite: Shell) -> None:
    (on_sqlite.directory / "clockwork.py").write_text(APP.replace("every 1 second", "61 * * * *"))
    told = on_sqlite.refusal("beat", "--app", "clockwork:app", code=64)
    assert "'61' is no minute" in told and "clockwork.py" in told


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("show", "nothing"), "There is no schedule 'nothing'"),
        (("remove", "nothing", "--yes"), "There is no schedule 'nothing'"),
        (("run", "nothing"), "There is no schedule 'nothing'"),
        (("add", "a b", "--task", "t", "--spec", "@daily"), "is not allowed"),
        (("add", "a", "--task", "t", "--spec", "0 0 31 2 *"), "never comes"),
        (("add", "a", "--task", "t", "--spec", "1--100000000 * * * *"), "is no minute"),
        (("add", "a", "--task", "t", "--spec", "@reboot"), "on_start"),
        (("apply", "-f", "missing.yaml"), "cannot be read"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(on_sqlite: Shell, words: tuple[str, ...], sentence: str) -> None:
    on_sqlite.out("enqueue", "something")
    assert sentence in on_sqlite.refusal("schedule", *words, code=64)
