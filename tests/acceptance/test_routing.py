"""`stem routing show`, and how commands follow the rules of code and file."""

import pytest

from acceptance.serving import Serving
from acceptance.shell import Shell
from support.until import until

SHOP = """
from stem import Route, Stem

app = Stem(routes=[Route("mail.urgent", queue="quick", priority=9), Route("cache.*", broadcast=True)])

@app.task(name="mail.send", queue="declared")
def send(to: str) -> str:
    return to

@app.task(name="mail.urgent")
def urgent() -> None: ...

@app.task(name="cache.clear")
def clear(part: str = "all") -> str:
    return part

@app.task(name="other")
def other() -> None: ...
"""
FILE = """\
routes:
  - {match: mail.*, queue: mail, priority: 7}
  - match: report.*
    tenant: reports
"""


@pytest.fixture
def shop(shell: Shell) -> Shell:
    (shell.directory / "shop.py").write_text(SHOP)
    (shell.directory / "stem.yaml").write_text(FILE)
    return shell.at(PYTHONDONTWRITEBYTECODE="1")


def test_the_table_has_the_rules_of_the_code_before_those_of_the_file(shop: Shell) -> None:
    assert shop.out("routing", "show", "--app", "shop:app").splitlines() == [
        "rule  match        queue  priority  tenant   broadcast  from",
        "   1  mail.urgent  quick  9                             code",
        "   2  cache.*                                yes        code",
        "   3  mail.*       mail   7                             stem.yaml:2",
        "   4  report.*                      reports             stem.yaml:3",
    ]
    assert "stem.db" not in shop.files  # no store is opened


def test_without_an_app_the_rules_of_the_file_are_shown(shop: Shell) -> None:
    assert [(rule["rule"], rule["match"], rule["origin"]) for rule in shop.json("routing", "show")["rules"]] == [
        (1, "mail.*", "stem.yaml:2"),
        (2, "report.*", "stem.yaml:3"),
    ]


@pytest.mark.parametrize(
    ("task", "lines"),
    [
        (
            "mail.send",
            ["rule      3, mail.*  (stem.yaml:2)", "queue     mail  (declared: declared)", "priority  7"],
        ),
        ("mail.urgent", ["rule      1, mail.urgent  (code)", "queue     quick  (declared: default)", "priority  9"]),
        (
            "cache.clear",
            ["rule      2, cache.*  (code)", "queue     the own queue of every live worker", "priority  5"],
        ),
        ("other", ["rule      none", "queue     default", "priority  5"]),
    ],
)
def test_a_task_is_shown_with_its_rule_and_where_its_calls_go(shop: Shell, task: str, lines: list[str]) -> None:
    assert shop.out("routing", "show", task, "-A", "shop:app").splitlines() == [f"task      {task}", *lines]


def test_a_task_of_elsewhere_is_told_by_its_name_alone(shop: Shell) -> None:
    shown = shop.out("routing", "show", "report.make").splitlines()
    assert shown[0] == "task      report.make  (not a task of this app; its defaults are shown)"
    assert shown[-1] == "tenant    reports"


def test_a_task_as_json(shop: Shell) -> None:
    assert shop.at(STEM_APP="shop:app").json("routing", "show", "mail.send") == {
        "task": "mail.send",
        "isKnown": True,
        "rule": {
            "rule": 3,
            "match": "mail.*",
            "queue": "mail",
            "priority": 7,
            "tenant": None,
            "broadcast": False,
            "origin": "stem.yaml:2",
        },
        "queue": "mail",
        "declaredQueue": "declared",
        "priority": 7,
        "tenant": None,
        "broadcast": False,
    }


def test_nothing_is_wider_than_80_columns_and_the_line_is_never_cut(shop: Shell) -> None:
    folder = shop.directory / ("x" * 90)
    folder.mkdir()
    rules = "".join(f"- {{match: {'m' * 60}{n}.*, queue: {'q' * 60}, tenant: {'t' * 60}}}\n" for n in range(9))
    (folder / "stem.yaml").write_text(f"routes:\n{rules}")
    lines = shop.at(STEM_CONFIG=str(folder / "stem.yaml")).out("routing", "show").splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].endswith("stem.yaml:2") and lines[9].endswith("stem.yaml:10")


def test_an_app_without_rules_says_so(shell: Shell) -> None:
    assert shell.out("routing", "show") == "There are no rules; every call goes where its task says."


def test_an_enqueue_follows_the_rules_unless_a_flag_says_otherwise(shop: Shell) -> None:
    known, mail = ("-A", "shop:app"), ("enqueue", "mail.send", "--arg", "to=ada")
    for words in ((*mail, *known), mail, (*mail, *known, "-Q", "mine"), (*mail, "-Q", "mine", "--priority", "1")):
        shop.out(*words)
    tasks = shop.json("task", "list")["tasks"]
    assert sorted((task["queue"], task["priority"]) for task in tasks) == [
        ("mail", 7),
        ("mail", 7),
        ("mine", 1),
        ("mine", 7),
    ]


def test_the_configuration_lists_the_rules(shop: Shell) -> None:
    (shown,) = [option for option in shop.json("config", "check")["options"] if option["option"] == "routes"]
    assert shown["value"] == ["mail.* queue=mail priority=7", "report.* tenant=reports"]
    assert shown["source"] == "file"


def test_a_broadcast_prints_the_task_of_each_worker_and_after_a_wait_its_result(shop: Shell) -> None:
    clear = ("enqueue", "cache.clear", "-A", "shop:app")
    assert "No live worker" in shop.refusal(*clear, code=70)
    with Serving(shop, "-A", "shop:app", "-n", "w1") as one, Serving(shop, "-A", "shop:app", "-n", "w2") as two:
        one.says("worker.started")
        two.says("worker.started")
        until(lambda: len(shop.json("health")["workers"]) == 2, seconds=20, every=0.2)
        sent = shop.json(*clear)
        assert [task["worker"] for task in sent["tasks"]] == ["w1", "w2"]
        assert shop.out("task", "result", sent["tasks"][0]["id"], "--wait", "20s") == '"all"'
        found = shop.json("task", "list", "--meta", f"broadcast={sent['broadcast']}")["tasks"]
        assert {task["id"] for task in found} == {task["id"] for task in sent["tasks"]}
        lines = shop.out(*clear, "--arg", "part=users", "--wait", "20s").splitlines()
        assert [line.split() for line in lines] == [
            ["worker", "state", "result"],
            ["w1", "succeeded", '"users"'],
            ["w2", "succeeded", '"users"'],
        ]
        assert shop.json(*clear, "--wait", "20s")["tasks"][1]["result"] == "all"
        assert "worker." not in shop.out("queue", "list")
        assert len(shop.out(*clear).splitlines()) == 3
