"""A worker finds the tasks of an app: included modules, aliases of renamed tasks; and says what it does not find."""

import pytest

from acceptance.serving import Serving
from acceptance.shell import Shell
from support.until import until

APP = """
from stem import Stem

app = Stem(include=["shop.mail"], max_retries=0)
app.autodiscover(["shop.billing", "shop.plain", "shop.mail"])  # the last is a module, not a package
"""
MAIL = """
from shop.app import app

@app.task(name="mail.post", aliases=["mail.send"], queue="post")
def post(to: str) -> str:
    return to.upper()
"""
BILLING = """
from shop.app import app

@app.task(name="bill")
def bill(cents: int) -> int:
    return cents
"""


@pytest.fixture
def shop(shell: Shell) -> Shell:
    for name, text in {
        "shop/__init__.py": "",
        "shop/app.py": APP,
        "shop/mail.py": MAIL,
        "shop/billing/__init__.py": "",
        "shop/billing/tasks.py": BILLING,
        "shop/plain/__init__.py": "",
    }.items():
        file = shell.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return shell.at(STEM_APP="shop.app:app", PYTHONDONTWRITEBYTECODE="1")


def test_included_and_discovered_tasks_run_and_the_banner_lists_them(shop: Shell) -> None:
    with Serving(shop) as worker:
        worker.says("bill, mail.post")
        assert shop.out("enqueue", "mail.post", "--arg", "to=ada", "--wait", "20s").endswith('"ADA"')
        assert shop.out("enqueue", "bill", "--arg", "cents=5", "--wait", "20s").endswith("5")
        assert "no-tasks" not in worker.log and "queue.unserved" not in worker.log


def test_calls_under_an_old_name_run_and_can_be_replayed(shop: Shell) -> None:
    waiting = shop.at(STEM_APP="").out("enqueue", "mail.send", "--arg", "to=ada", "--queue", "post")
    (shop.directory / "shop" / "mail.py").write_text(MAIL.replace('aliases=["mail.send"], ', ""))
    with Serving(shop) as worker:
        worker.says("unknown-task")
    (shop.directory / "shop" / "mail.py").write_text(MAIL)
    with Serving(shop):
        shop.out("dlq", "replay", waiting)
        until(lambda: shop.json("task", "show", waiting)["status"] == "succeeded", seconds=20, every=0.1)


def test_a_queue_that_nobody_serves_any_more_is_named_at_the_start(shop: Shell) -> None:
    shop.out("enqueue", "bill", "--arg", "cents=5", "--queue", "old")
    with Serving(shop) as worker:
        worker.says("queue.unserved queue=old waiting=1")
        worker.says("worker.started")
        with Serving(shop, "--queue", "old") as other:
            other.says("worker.started")
            assert "queue.unserved" not in other.log


def test_an_app_without_tasks_draws_a_warning(shell: Shell) -> None:
    (shell.directory / "bare.py").write_text("from stem import Stem\napp = Stem()\n")
    with Serving(shell, "--app", "bare:app") as worker:
        worker.says("worker.no_tasks_found")


@pytest.mark.parametrize(
    ("app", "sentence"),
    [
        ('Stem(include=["shop.nothing"])', "There is no module 'shop.nothing' for include=['shop.nothing']"),
        ('Stem(include=["shop.broken"])', "'shop.broken' cannot be imported (NameError"),
        ('Stem(include="shop.mail")', "include is 'shop.mail'; give a list of names"),
        ('Stem()\napp.autodiscover(["shop.nowhere"])', "There is no module 'shop.nowhere' for autodiscover"),
    ],
)
def test_a_module_that_cannot_be_included_is_reported(shop: Shell, app: str, sentence: str) -> None:
    (shop.directory / "shop" / "app.py").write_text(f"from stem import Stem\napp = {app}\n")
    (shop.directory / "shop" / "broken.py").write_text("\nnothing\n")
    assert sentence in shop.refusal("worker", "start", code=64)


def test_the_client_finds_included_tasks_by_name(shop: Shell) -> None:
    line = 'python -c \'from shop.app import app; print(app.enqueue("mail.send", {"to": "ada"}).status().name)\''
    done = shop.paste(line)
    assert done.stdout == "mail.post\n", done
