"""A Django project from its own command line: checks, test runs, apps of its own, and mistakes that are one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = """
SECRET_KEY = "only-for-this-test"
USE_TZ = True
INSTALLED_APPS = ["stem.integrations.django", "orders", "single"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}
"""

TASKS = """
from stem.integrations.django import app

@app.task
def double(n: int) -> int:
    return 2 * n
"""

TESTS = """
from django.test import TestCase
from stem.integrations.django import app
from stem.testing import eager, run_pending
from orders.tasks import double

class Tests(TestCase):
    def test_eager(self):
        with eager(app):
            self.assertEqual(double.enqueue(4).get(), 8)

    def test_on_commit(self):
        with self.captureOnCommitCallbacks(execute=True):
            handle = double.enqueue(5)
        self.assertEqual(run_pending(app), 1)
        self.assertEqual(handle.get(1), 10)
        self.assertTrue(app.store.url.startswith("memory:"))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "__init__.py").touch()
    (tmp_path / "orders" / "tasks.py").write_text(TASKS)
    (tmp_path / "orders" / "tests.py").write_text(TESTS)
    (tmp_path / "single.py").touch()
    (tmp_path / "settings.py").write_text(SETTINGS)
    return tmp_path


def django(project: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join(filter(None, (str(project), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "settings", "PYTHONPATH": path, **variables}
    command = [sys.executable, "-m", "django", *words]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=60)


def test_a_test_run_never_reaches_the_store_of_the_project(project: Path) -> None:
    assert django(project, "migrate", "--verbosity", "0").returncode == 0
    done = django(project, "test")
    assert done.returncode == 0 and "Ran 2 tests" in done.stderr, done.stderr
    assert "default" not in django(project, "stem", "queue", "list").stdout


def test_an_app_of_the_projects_own_is_the_one_that_commands_use(project: Path) -> None:
    (project / "own.py").write_text("from stem.integrations.django import DjangoStem\napp = DjangoStem(queue='mine')\n")
    (project / "settings.py").write_text(
        SETTINGS + "STEM = {'APP': 'own:app', 'NAMESPACE': 'own', 'RESULT_TTL': '1h'}\n"
    )
    assert django(project, "migrate", "--verbosity", "0").returncode == 0
    sent = django(project, "stem", "enqueue", "orders.tasks.double", "--arg", "n=4")
    assert sent.returncode == 0, sent.stderr
    assert "mine" in django(project, "stem", "queue", "list").stdout


@pytest.mark.parametrize(
    ("stem", "sentence"),
    [
        ("'redis://localhost'", "The setting STEM is not a dict; write it like"),
        ("{'BROKER_ULR': 'redis://'}", "STEM['BROKER_ULR'] is no setting of Stem's; did you mean BROKER_URL?"),
        ("{'RESULT_TTL': 'soon'}", "STEM_RESULT_TTL='soon' is not"),
        ("{'DATABASE': 'other'}", "STEM['DATABASE'] is 'other', which DATABASES does not have"),
        ("{'APP': 'orders.tasks:nothing'}", "STEM['APP'] is 'orders.tasks:nothing', which is no Stem app"),
    ],
)
def test_a_mistake_in_the_settings_is_one_sentence(project: Path, stem: str, sentence: str) -> None:
    (project / "settings.py").write_text(SETTINGS + f"STEM = {stem}\n")
    checked = django(project, "check")
    assert checked.returncode == 1 and f"(stem.E001) {sentence}" in checked.stderr
    commanded = django(project, "stem", "task", "list")
    assert commanded.returncode == 64 and sentence in commanded.stderr and "Traceback" not in commanded.stderr


def test_a_database_without_stems_tables_says_how_to_get_them(project: Path) -> None:
    script = (
        "import django; django.setup()\nfrom django.db import transaction\nfrom orders.tasks import double\n"
        "with transaction.atomic():\n    double.enqueue(1)\n"
    )
    done = django(project, "shell", "-c", script)
    assert "Stem's tables are not in the database yet; run: python manage.py migrate" in done.stderr
