"""Routes in a file: each knows its line, and each mistake is one sentence with file and line."""

from pathlib import Path

import pytest

from stem import ConfigError, Route, Settings, Stem
from stem.core.settings.routes import routes_of_code
from stem.runtime.configfile import configured, load

GOOD = """\
namespace: shop
routes:
  - {match: mail.*, queue: mail, priority: 7}

  - match: report.*
    tenant: reports
  - match: cache.clear
    broadcast: true
"""


def in_file(tmp_path: Path, text: str) -> dict[str, str]:
    (tmp_path / "stem.yaml").write_text(text)
    return {"STEM_CONFIG": str(tmp_path / "stem.yaml")}


def test_the_rules_of_a_file_know_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "stem.yaml"
    assert configured(in_file(tmp_path, GOOD)).routes == (
        Route("mail.*", queue="mail", priority=7, origin=f"{file}:3"),
        Route("report.*", tenant="reports", origin=f"{file}:5"),
        Route("cache.clear", broadcast=True, origin=f"{file}:7"),
    )


def test_the_configuration_shows_the_rules_and_that_the_file_gave_them(tmp_path: Path) -> None:
    (shown,) = [each for each in load(in_file(tmp_path, GOOD)).shown() if each[0] == "routes"]
    assert shown[1] == ("mail.* queue=mail priority=7", "report.* tenant=reports", "cache.clear broadcast")
    assert shown[2].kind == "file"


@pytest.mark.parametrize("text", ["", "routes:\n", "routes: []\n", "Routes: []\n"])
def test_a_file_may_have_no_rules(tmp_path: Path, text: str) -> None:
    assert configured(in_file(tmp_path, text)).routes == ()


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("routes: {match: a}\n", 1, "routes is a dict; use a list of rules"),
        ("broker: {}\nroutes: mail\n", 2, "routes is a str; use a list of rules"),
        ("routes:\n- mail.*\n", 2, "A route is 'mail.*'; use a mapping with match"),
        ("routes:\n- {queue: mail}\n", 2, "A route has no match; name the tasks that it is for"),
        ("routes:\n- {match: null, queue: mail}\n", 2, "A route has no match"),
        ("routes:\n- {match: a}\n- {match: b, quue: mail}\n", 3, "the key 'quue', which is not one of"),
        ("routes:\n- {match: b, quue: mail}\n", 2, "did you mean queue?"),
        ("routes:\n- {match: b, origin: code}\n", 2, "the key 'origin', which is not one of"),
        ("routes:\n- {match: b, 5: mail}\n", 2, "the key 5, which is not one of"),
        ("routes:\n- {match: 'mail .*'}\n", 2, "A route has the match 'mail .*'; use a task's name"),
        ("routes:\n- match: mail.*\n  queue: my mail\n", 2, "Queue 'my mail' is not allowed"),
        ("routes:\n- {match: mail.*, priority: 12}\n", 2, "Priority 12 is not a whole number from 0"),
        ("routes:\n- {match: mail.*, tenant: 7}\n", 2, "has the tenant 7; use a text"),
        ("routes:\n- {match: mail.*, broadcast: 1}\n", 2, "has broadcast 1; use true or false"),
        ("routes:\n- {match: mail.*, match: b}\n", 2, "match is given twice"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_line(tmp_path: Path, text: str, line: int, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(in_file(tmp_path, text))
    told = str(caught.value)
    assert told.startswith(f"{tmp_path / 'stem.yaml'}, line {line}: ") and sentence in told
    assert told.endswith((".", "?")) and "\n" not in told


def test_all_wrong_rules_are_told_at_once(tmp_path: Path) -> None:
    errors = load(in_file(tmp_path, "routes:\n- {}\n- {match: a}\n- {match: b, priority: -1}\n")).errors
    assert [error.partition(": ")[0].rpartition(" ")[2] for error in errors] == ["2", "4"]


def test_rules_of_the_code_come_before_those_of_the_file() -> None:
    of_file = Settings(broker_url="memory://", routes=(Route("mail.*", queue="slow", origin="stem.yaml:2"),))
    app = Stem(settings=of_file, routes=[{"match": "mail.send", "queue": "quick"}])
    assert [route.origin for route in app.settings.routes] == ["code", "stem.yaml:2"]
    assert app.sender("mail.send", check=False).definition.plan.queue == "quick"
    assert app.sender("mail.other", check=False).definition.plan.queue == "slow"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("mail.*", "routes is 'mail.*'; give a list"),
        ({"match": "mail.*"}, "give a list"),
        (Route("mail.*"), "give a list"),
        (7, "routes is 7; give a list"),
        (["mail.*"], "A route is 'mail.*'; use a mapping"),
        ([{"match": "a", "que": "b"}], "did you mean queue?"),
    ],
)
def test_a_wrong_route_in_code_is_refused_in_one_sentence(given: object, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Stem("memory://", routes=given)  # type: ignore[arg-type]
    assert sentence in str(caught.value)


def test_settings_of_code_are_judged_by_the_same_rules() -> None:
    with pytest.raises(ConfigError, match=r"routes is .*; use a list of Route objects"):
        Stem(settings=Settings(routes=("mail.*",)))  # type: ignore[arg-type]


def test_rules_may_be_objects_or_mappings() -> None:
    assert routes_of_code([{"match": "a", "queue": "b", "tenant": None}]) == routes_of_code(
        iter([Route("a", queue="b")])
    )
