"""People who come from elsewhere are told the spelling that is used here."""

from datetime import UTC, datetime
from typing import Any

import pytest

from stem import InvalidArguments, InvalidTask, Stem
from stem.client.task.policy import seconds


@pytest.fixture
def work(app: Stem) -> Any:
    @app.task(name="work")
    def work(a: int = 1) -> int:
        return a

    return work


@pytest.mark.parametrize(
    ("name", "option"),
    [("delay", "delay"), ("countdown", "delay"), ("eta", "not_before"), ("priority", "priority"), ("task_id", "id")],
)
def test_an_option_among_the_arguments_is_told_from_an_unknown_argument(work: Any, name: str, option: str) -> None:
    sentence = rf"work has no argument '{name}', which is an option of the call; .*options\({option}=…\)\.enqueue"
    with pytest.raises(InvalidArguments, match=sentence):
        work.enqueue(1, **{name: 5})


def test_a_parameter_of_that_name_is_an_argument(app: Stem) -> None:
    assert app.task(name="late")(lambda delay: delay).enqueue(delay=5).created
    assert app.task(name="any")(lambda **rest: None).enqueue(countdown=5).created


@pytest.mark.parametrize(
    ("name", "hint"), [("delay", "task.enqueue"), ("apply_async", "task.options"), ("retry", "ctx.retry")]
)
def test_methods_of_tasks_elsewhere_are_named(work: Any, name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=rf"object has no attribute '{name}'; use {hint}"):
        getattr(work, name)
    assert not hasattr(work, name) and not hasattr(work, "colour")


def test_apps_and_handles_know_their_habits(app: Stem, work: Any) -> None:
    with pytest.raises(AttributeError, match=r"'send_task'; use app\.enqueue"):
        app.send_task  # type: ignore[attr-defined] # noqa: B018
    with pytest.raises(AttributeError, match=r"'result'; use handle\.get\(\)"):
        work.enqueue().result  # noqa: B018
    with pytest.raises(AttributeError, match=r"'Stem' object has no attribute 'colour'$"):
        app.colour  # type: ignore[attr-defined] # noqa: B018


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("time_limit", "use hard_limit"),
        ("bind", "annotated TaskContext"),
        ("autoretry_for", "use retry_on"),
        ("max_retrys", "did you mean max_retries"),
        ("colour", "the options are name, "),
    ],
)
def test_options_of_tasks_elsewhere_are_named(app: Stem, option: str, hint: str) -> None:
    with pytest.raises(InvalidTask, match=f"There is no task option '{option}'; .*{hint}"):
        app.task(**{option: 5})(lambda: None)  # type: ignore[call-overload]


def test_options_of_calls_elsewhere_are_named(work: Any) -> None:
    with pytest.raises(InvalidTask, match="There is no option 'countdown'; use delay"):
        work.options(countdown=5)
    with pytest.raises(InvalidTask, match="There is no option 'prioritty'; did you mean priority"):
        work.options(prioritty=5)


def test_decorating_something_else_is_refused_with_a_hint(app: Stem, work: Any) -> None:
    with pytest.raises(
        InvalidTask, match=r"got the text 'mail\.send'; write the name as @app\.task\(name='mail\.send'\)"
    ):
        app.task("mail.send")  # type: ignore[call-overload]
    with pytest.raises(InvalidTask, match="without an app; make one first"):
        Stem.task(lambda: None)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("text", "expected"), [("30m", 1800.0), ("250ms", 0.25), ("2s", 2.0), ("1h", 3600.0), ("1d", 86400.0), ("10", 10.0)]
)
def test_a_duration_may_be_written_as_on_the_command_line(text: str, expected: float) -> None:
    assert seconds("it", text) == expected


def test_durations_are_taken_wherever_there_are_seconds(app: Stem) -> None:
    work = app.task(name="it", soft_limit="20m", hard_limit="30m", retry=["1s", "5m"], unique="10m")(lambda: None)
    task = work.definition
    assert (task.soft_limit, task.hard_limit, task.plan.unique) == (1200.0, 1800.0, 600.0)
    plan = work.options(delay="5m", expires="1h", hard_limit="2h", retry="10s", visibility_timeout="30s")._plan
    assert (plan.delay_seconds, plan.expires_seconds, plan.hard_limit) == (300.0, 3600.0, 7200.0)
    assert Stem("memory://limits", hard_limit="5m").defaults.hard_limit == 300.0
    with pytest.raises(
        InvalidTask, match="hard_limit is 'soon'; give a number of seconds, a timedelta, or a text like"
    ):
        app.task(name="wrong", hard_limit="soon")(lambda: None)
    with pytest.raises(InvalidTask, match="not_before is '5m'"):
        work.options(not_before="5m")  # type: ignore[arg-type]
    assert work.options(not_before=datetime(2030, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("postgresql+psycopg://ada@host/db", "postgresql://ada@host/db"),
        ("postgres+psycopg2://host/db?a=b+c", "postgres://host/db?a=b+c"),
        ("sqlite+pysqlite:///a+b.db", "sqlite:///a+b.db"),
        ("sqlite:///a+b:c.db", "sqlite:///a+b:c.db"),
    ],
)
def test_urls_as_sqlalchemy_writes_them_are_taken(url: str, plain: str) -> None:
    from stem.backends import check_url
    from stem.core.settings.app import from_environment

    assert Stem(url, results_url=url).settings.broker_url == plain
    assert from_environment({"STEM_BROKER_URL": url}).broker_url == plain
    assert check_url(url) in ("postgresql", "postgres", "sqlite")
