"""`stem enqueue --app`: the task must be known and the arguments must fit; a broken app is one sentence."""

import json

import pytest

from acceptance.shell import Shell

SHOP = """
print("loading the shop")
from stem import Stem

app = Stem()

@app.task(name="mail.send", queue="mail")
def send(to: str, copies: int = 1) -> int:
    return copies
"""


@pytest.fixture
def shop(shell: Shell) -> Shell:
    package = shell.directory / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tasks.py").write_text(SHOP)
    return shell.at(STEM_APP="shop.tasks:app", PYTHONDONTWRITEBYTECODE="1")


def test_the_apps_own_defaults_are_used(shop: Shell) -> None:
    done = shop.run("enqueue", "mail.send", "--arg", "to=ada")
    assert done.returncode == 0, done
    assert done.stdout.count("\n") == 1, "what the app prints while it loads must not reach stdout"
    (queue,) = json.loads(shop.run("queue", "list", "--json").stdout)["queues"]
    assert queue["queue"] == "mail"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("enqueue", "mail.sned", "--arg", "to=ada"), "mail.sned"),
        (("enqueue", "mail.send"), "to"),
        (("enqueue", "mail.send", "--arg", "to=ada", "--arg", "cc=bob"), "cc"),
        (("enqueue", "mail.send", "--arg", "to=ada", "--arg", "copies=two"), "copies"),
    ],
)
def test_an_unknown_task_or_wrong_arguments_are_refused(shop: Shell, words: tuple[str, ...], sentence: str) -> None:
    done = shop.run(*words)
    assert (done.returncode, done.stdout) == (64, "")
    assert sentence in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
    assert "stem.db" not in shop.files


def test_flags_move_an_app_that_names_no_store_of_its_own(shop: Shell) -> None:
    shop.run("enqueue", "mail.send", "--arg", "to=ada", "--broker-url", "sqlite:///other.db", "--namespace", "n2")
    assert "other.db" in shop.files and "stem.db" not in shop.files
    assert shop.json("queue", "list", "--broker-url", "sqlite:///other.db", "--namespace", "n2")["queues"]


def test_flags_that_an_app_would_ignore_are_refused(shop: Shell) -> None:
    (shop.directory / "fixed.py").write_text(
        SHOP.replace("Stem()", 'Stem("sqlite:///fixed.db")').replace("print", "str")
    )
    words = ("enqueue", "mail.send", "--arg", "to=ada", "--app", "fixed:app")
    assert "--broker-url cannot change it" in shop.refusal(*words, "--broker-url", "sqlite:///other.db", code=64)
    assert shop.out(*words)
    assert "fixed.db" in shop.files


def test_an_app_that_cannot_be_imported_is_named_with_the_cause(shell: Shell) -> None:
    (shell.directory / "broken.py").write_text("import json\njson.loads(1/0)\n")
    words = ("enqueue", "a", "--app", "broken:app")
    refusal = shell.refusal(*words, code=64)
    assert "'broken'" in refusal and "ZeroDivisionError: division by zero" in refusal
    assert "line 2" in shell.run(*words, "--traceback").stderr
    assert "line 2" in shell.at(STEM_DEBUG="1").run(*words).stderr


def test_a_module_that_the_app_misses_is_told_from_a_missing_app(shell: Shell) -> None:
    (shell.directory / "needy.py").write_text("import not_installed_anywhere\n")
    refusal = shell.refusal("enqueue", "a", "--app", "needy:app", code=64)
    assert "'needy' cannot be imported" in refusal and "not_installed_anywhere" in refusal
