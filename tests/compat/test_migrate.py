"""`stem migrate`: reads a Celery project, changes its import lines, and imports the schedules of django-celery-beat."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat.side_by_side import BIN, PROJECT, with_bridge
from stem.compat.migration.celery_project import read_project, rewrite
from stem.compat.migration.findings import Verdict

EXAMPLE = Path(__file__).parents[2] / "examples" / "migrate_from_celery"
BAD = """
from celery import Celery, bootsteps
from celery.signals import task_prerun, task_received
raise SystemExit("a project is read, never run")
app = Celery("x", broker="amqp://guest@localhost//")
app.conf.task_serializer = "pickle"
app.conf.worker_prefetch_multiplier = 1
app.worker_main([])
@app.task
async def f(): ...
f.apply_async(routing_key="x")
app.control.pool_grow(2)
from kombu import Queue
"""
DJANGO = """
import os
SECRET_KEY = "x"
INSTALLED_APPS = ["django_celery_beat"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["DATABASE"]}}
USE_TZ = True
CELERY_BROKER_URL = os.environ["BROKER"]
"""
APP = """
from stem.compat.celery import Celery
app = Celery("proj")
app.config_from_object("django.conf:settings", namespace="CELERY")
@app.task
def report(x, y=0): ...
"""
ROWS = """
import django; django.setup()
from django.core.management import call_command; call_command("migrate", verbosity=0)
from django_celery_beat.models import CrontabSchedule, IntervalSchedule, PeriodicTask
monday = CrontabSchedule.objects.create(minute="0", hour="6", day_of_week="1", day_of_month="1-7", timezone="Europe/Berlin")
often = IntervalSchedule.objects.create(every=5, period="minutes")
PeriodicTask.objects.create(name="first monday", task="proj.report", crontab=monday, args="[1]", kwargs='{"y": 2}')
PeriodicTask.objects.create(name="often", task="proj.report", interval=often, queue="slow", enabled=False, args="[3]")
tiny = IntervalSchedule.objects.create(every=5, period="microseconds")
PeriodicTask.objects.create(name="tiny", task="proj.report", interval=tiny)
"""


def test_a_project_that_the_bridge_runs_has_nothing_refused() -> None:
    findings = read_project(PROJECT)
    assert findings.can_move and len(findings.of(Verdict.WORKS)) > 10 and findings.unreadable == {}


def test_what_will_not_work_is_listed_with_its_line_and_replacement(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    (tmp_path / "broken.py").write_text("def (:")
    findings = read_project(tmp_path)
    refused = {each.line: each.what for each in findings.of(Verdict.REFUSED)}
    assert refused == {
        2: "from celery import bootsteps",
        3: "from celery.signals import task_received",
        5: "amqp://… (RabbitMQ)",
        6: "task_serializer = 'pickle'",
        8: "app.worker_main",
        10: "async def f",
        11: "apply_async(routing_key=…)",
        12: "control.pool_grow",
        13: "from kombu import Queue",
    }
    assert all(each.why.endswith((".", ".)")) for each in findings.found)
    assert [each.what for each in findings.of(Verdict.DIFFERS)] == ["worker_prefetch_multiplier"]
    assert list(findings.unreadable) == ["broken.py"]


def test_the_command_says_so_to_scripts(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    ran = subprocess.run(
        [BIN / "stem", "migrate", "celery", tmp_path, "--json"], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 3
    told = json.loads(ran.stdout)
    assert told["canMove"] is False and {each["verdict"] for each in told["found"]} == {"works", "differs", "refused"}


def test_rewriting_changes_import_lines_alone(tmp_path: Path) -> None:
    text = "import celery  # here\nfrom celery import Celery\nimport celery.schedules as when\nname = 'from celery import x'\n"
    (tmp_path / "one.py").write_text(text)
    assert rewrite(tmp_path) == [str(tmp_path / "one.py")]
    assert (tmp_path / "one.py").read_text() == (
        "from stem.compat import celery  # here\nfrom stem.compat.celery import Celery\n"
        "import stem.compat.celery.schedules as when\nname = 'from celery import x'\n"
    )
    assert rewrite(tmp_path) == []


def test_the_two_folders_of_the_example_differ_in_import_lines_only() -> None:
    for before in sorted((EXAMPLE / "before").rglob("*.py")):
        after = EXAMPLE / "after" / before.relative_to(EXAMPLE / "before")
        assert after.read_text() == with_bridge(before.read_text())


@pytest.mark.parametrize("side", ["after", "before"])
def test_the_example_prints_the_same_with_both(side: str, request: pytest.FixtureRequest) -> None:
    environment = dict(os.environ)
    if side == "before":
        environment |= {"SHOP_BROKER_URL": request.getfixturevalue("redis_server").url, "C_FORCE_ROOT": "1"}
    ran = subprocess.run(
        [sys.executable, EXAMPLE / "run.py", side], env=environment, capture_output=True, text=True, timeout=110
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "bill: 42",
        "states: ['paid', 'paid', 'paid']",
        "bills: [42]",
        "one more: 10",
        "counted by: beat on stock",
    ]


def test_schedules_of_django_celery_beat_are_imported_once(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(DJANGO)
    (tmp_path / "proj.py").write_text(APP)
    environment = {
        **os.environ,
        "BROKER": f"sqlite:///{tmp_path}/stem.db",
        "DATABASE": str(tmp_path / "django.db"),
        "DJANGO_SETTINGS_MODULE": "settings",
        "PYTHONPATH": str(tmp_path),
    }
    subprocess.run([sys.executable, "-c", ROWS], env=environment, cwd=tmp_path, check=True, timeout=60)
    command: list[str | Path] = [BIN / "stem", "migrate", "django-celery-beat", "--app", "proj:app", "--json"]
    for _ in range(2):
        ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 3, ran.stderr  # one of them has no counterpart
        told = json.loads(ran.stdout)
        assert told["imported"] == ["first-monday", "often"] and "whole seconds" in told["refused"]["tiny"]
    listed = subprocess.run(
        [BIN / "stem", "schedule", "export", "--broker-url", environment["BROKER"]],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "0 6 1-7 * &1" in listed.stdout and "Europe/Berlin" in listed.stdout and "every 300 seconds" in listed.stdout
