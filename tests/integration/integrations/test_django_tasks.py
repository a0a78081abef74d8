"""Django's own tasks framework on Stem: a project whose tasks are declared with Django's decorator, run by a worker."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

FRAMEWORK = "django.tasks" if find_spec("django.tasks") else "django_tasks"
pytestmark = pytest.mark.skipif(find_spec(FRAMEWORK) is None, reason="needs Django 6 or the package django-tasks")

SETTINGS = """
SECRET_KEY = "only-for-this-test"
USE_TZ = True
INSTALLED_APPS = ["stem.integrations.django", "mail"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}
TASKS = {
    "default": {
        "BACKEND": "stem.integrations.django.task_backend.StemBackend",
        "QUEUES": ["default", "slow"],
        "OPTIONS": {"max_retries": 1, "retry": 0.1},
    }
}
"""

TASKS = """
from FRAMEWORK import task

@task
def add(a, b=1):
    return {"sum": a + b}

@task(queue_name="slow", priority=50)
async def wait(text):
    return text

@task(takes_context=True)
def flaky(context):
    if context.attempt == 1:
        raise ValueError("the first attempt")
    return context.task_result.id

@task
def broken():
    raise KeyError("nothing there")
"""

STORY = """
import json, time
import django
django.setup()
from datetime import timedelta
from django.db import transaction
from django.utils import timezone
from FRAMEWORK import default_task_backend, exceptions, signals
from mail.tasks import add, broken, flaky, wait

sent = []
signals.task_enqueued.connect(lambda task_result, **_: sent.append(task_result.id), weak=False)

def ended(result):
    end = time.monotonic() + 30
    while not result.is_finished and time.monotonic() < end:
        time.sleep(0.05)
        result.refresh()
    return result

told = {}
result = add.enqueue(1, b=2)
told["first status"] = result.status.value
told["sum"] = ended(result).return_value
told["arguments"] = [default_task_backend.get_result(result.id).args, default_task_backend.get_result(result.id).kwargs]
told["async"] = ended(wait.enqueue("hello")).return_value
soon = add.using(run_after=timezone.now() + timedelta(seconds=1), priority=-100).enqueue(5)
ended(soon)
told["not early"] = soon.started_at >= soon.enqueued_at + timedelta(seconds=0.9)
retried = ended(flaky.enqueue())
told["retried"] = [retried.return_value == retried.id, retried.attempts]
failed = ended(broken.enqueue())
told["failed"] = [failed.status.value, failed.errors[0].exception_class.__name__, "nothing there" in failed.errors[0].traceback]
try:
    with transaction.atomic():
        undone = add.enqueue(1)
        raise RuntimeError
except RuntimeError:
    pass
try:
    default_task_backend.get_result(undone.id)
except exceptions.TaskResultDoesNotExist:
    told["undone"] = True
told["signals"] = len(sent)
print(json.dumps(told))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "mail").mkdir()
    (tmp_path / "settings.py").write_text(SETTINGS)
    (tmp_path / "mail" / "__init__.py").touch()
    (tmp_path / "mail" / "tasks.py").write_text(TASKS.replace("FRAMEWORK", FRAMEWORK))
    (tmp_path / "story.py").write_text(STORY.replace("FRAMEWORK", FRAMEWORK))
    django(tmp_path, "migrate", "--verbosity", "0")
    return tmp_path


@pytest.fixture
def worker(project: Path) -> Iterator[None]:
    with (project / "worker.log").open("wb") as file:
        command = [sys.executable, "-m", "django", "stem", "worker", "start", "--concurrency", "2"]
        process = subprocess.Popen(command, cwd=project, env=environment(project), stderr=file)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def environment(project: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(project), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": path}


def django(project: Path, *words: str) -> str:
    command = [sys.executable, "-m", "django", *words]
    done = subprocess.run(command, cwd=project, env=environment(project), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("worker")
def test_tasks_of_django_run_on_stem_and_their_results_come_back(project: Path) -> None:
    command = [sys.executable, "story.py"]
    done = subprocess.run(command, cwd=project, env=environment(project), capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr + (project / "worker.log").read_text()
    told: dict[str, Any] = json.loads(done.stdout)
    assert told == {
        "first status": "READY",
        "sum": {"sum": 3},
        "arguments": [[1], {"b": 2}],
        "async": "hello",
        "not early": True,
        "retried": [True, 2],
        "failed": ["FAILED", "KeyError", True],
        "undone": True,
        "signals": 6,
    }
    listed = json.loads(django(project, "stem", "task", "list", "--json"))
    assert "mail.tasks.add" in json.dumps(listed), "each has the name of its function"
