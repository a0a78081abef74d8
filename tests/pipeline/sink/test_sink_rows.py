"""Rows as calls, and what is refused: what each executor and the driver do, without a Spark around them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stem.client.send.signing import verify
from stem.core.delivery import Delivery, Lease
from stem.core.envelope import Envelope, decode, encode
from stem.core.errors import StemError, UsageError
from stem.pipeline.sink.compose import BadRow, Composer, RowIds
from stem.pipeline.sink.write_options import check_against_app, write_options
from stem.pipeline.spark.spark_errors import quoted
from stem.runtime.keys import Keyring

APP = "support.pipeline.mail_app:app"
GOOD = {"to": ["a"], "copies": [1]}


def composed(rows: dict[str, Any], **options: str) -> tuple[list[Envelope], list[BadRow]]:
    batch = pa.RecordBatch.from_pydict(rows)
    write = write_options({"url": "sqlite:////nowhere/x.db", **options}, batch.schema.names)
    calls, bad = Composer(write, "job", 0).compose(batch)
    return [decode(body) for body in calls.bodies] if calls else [], bad


@pytest.mark.parametrize(
    ("rows", "options", "reason"),
    [
        (GOOD | {"task": ["mail.sned"]}, {}, "did you mean mail.send?"),
        (GOOD | {"task": ["mail.note"]}, {}, "mail.note is missing 'text'"),
        ({"to": ["a"], "task": ["mail.once"]}, {}, "Task mail.once is unique"),
        (GOOD | {"queue": ["a b"]}, {}, "Queue 'a b' is not allowed"),
        (GOOD | {"priority": [12]}, {}, "Priority 12 is not a whole number"),
        (GOOD | {"notBefore": ["soon"]}, {}, "notBefore 'soon' is not a moment"),
        (GOOD | {"notBefore": [datetime(2030, 1, 1)]}, {}, "has no time zone"),
        (GOOD | {"headers": [{"stem-x": "y"}]}, {}, "is reserved"),
        (GOOD | {"headers": ["[]"]}, {}, "not a JSON object of texts"),
        (GOOD | {"key": pa.array([None], pa.string())}, {"key": "key"}, "The key in column 'key' is null"),
        ({"to": ["a"], "copies": ["many"]}, {}, "Expected `int`, got `str`"),
        ({"to": [None], "copies": [1]}, {}, "Expected `str`, got `null`"),
        ({"to": ["a" * 3000], "copies": [1]}, {}, "bytes and the limit is 2,000"),
        ({"to": ["a\x00"], "copies": [1]}, {}, "NUL character"),
        ({"args": ["{"]}, {"argsColumn": "args"}, "'args' is not JSON"),
        ({"args": ["[1]"]}, {"argsColumn": "args"}, "not an object of named arguments"),
        ({"args": ['{"to": "a"}']}, {"argsColumn": "args"}, "missing 'copies'"),
    ],
)
def test_a_bad_row_is_told_with_its_reason(rows: dict[str, list[Any]], options: dict[str, str], reason: str) -> None:
    good, (bad,) = composed(rows, task="mail.send", app=APP, **options)
    assert (good, bad.row) == ([], 0)
    assert reason in bad.reason


def test_a_number_that_json_has_not_is_a_bad_row() -> None:
    good, (bad,) = composed({"x": [1.0, float("nan"), None]}, task="any")
    assert [each.arguments() for each in good] == [{"x": 1.0}, {"x": None}]
    assert (bad.row, bad.data) == (1, '{"x":null}') and "NaN or infinite" in bad.reason


def test_one_bad_row_changes_nothing_for_its_neighbours() -> None:
    rows = {"to": ["a", None, "c"], "copies": [1, 2, 3]}
    whole, _ = composed({"to": ["a", "b", "c"], "copies": [1, 2, 3]}, task="mail.send", app=APP)
    good, bad = composed(rows, task="mail.send", app=APP)
    when = whole[0].enqueued_at
    assert [each.row for each in bad] == [1]
    assert [_at(each, when) for each in good] == [whole[0], whole[2]], "the short way and the long one make the same"


@pytest.mark.parametrize("bad", [{}, {"task": ["mail.send", "mail.sned", "mail.send"]}], ids=["together", "one by one"])
def test_null_means_the_default_where_there_is_one(bad: dict[str, Any]) -> None:
    rows = {"to": ["a", "b", "c"], "copies": [1, 2, 3], "urgent": [None, None, True]}
    good, _ = composed(rows | bad, task="mail.send", app=APP)
    arguments = {each.arguments()["to"]: each.arguments() for each in good}
    assert arguments["a"] == {"to": "a", "copies": 1} and arguments["c"] == {"to": "c", "copies": 3, "urgent": True}


@pytest.mark.parametrize(
    ("cell", "arguments"),
    [
        ({"to": "a", "copies": 1, "urgent": None}, {"to": "a", "copies": 1}),
        ('{"to": "a", "copies": 1}', {"to": "a", "copies": 1}),
    ],
)
def test_null_means_the_default_in_one_column_of_arguments(cell: Any, arguments: dict[str, Any]) -> None:
    (sent,), bad = composed({"args": [cell]}, task="mail.send", app=APP, argsColumn="args")
    assert (sent.arguments(), bad) == (arguments, [])


def _at(sent: Envelope, when: datetime) -> Envelope:
    import msgspec

    return msgspec.structs.replace(sent, enqueued_at=when)


def test_calls_are_signed_where_the_settings_have_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = "k1:hmac-sha256:" + "MDEyMzQ1Njc4OWFiY2RlZg=="
    monkeypatch.setenv("STEM_SIGNING_KEYS", keys)
    (sent,), _ = composed({"to": ["a"]}, task="any")
    stored = Delivery(Lease(sent.id, 1), sent.name, sent.queue, 0, 0, encode(sent))
    verify(sent, stored, Keyring.parse(keys), namespace="stem")


def test_settings_sent_to_executors_can_sign_calls_and_no_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = "k1:hmac-sha256:" + "MDEyMzQ1Njc4OWFiY2RlZg=="
    monkeypatch.setenv("STEM_SIGNING_KEYS", keys)
    monkeypatch.setenv("STEM_CONTROL_KEYS", keys.replace("k1", "ops"))
    monkeypatch.setenv("STEM_CONTROL_TOKEN", "a token of sixteen and more")
    settings = write_options({"task": "any"}, ["to"]).settings
    assert (settings.signing_keys, settings.control.keys, settings.control.token) == (keys, "", "")


def test_ids_follow_from_job_partition_and_row_and_order_the_rows() -> None:
    first = list(RowIds("job", 0).numbered(0, 5000))
    assert first == sorted(first) == [*RowIds("job", 0).numbered(0, 10), *RowIds("job", 0).numbered(10, 4990)]
    others = [*RowIds("job", 1).numbered(0, 5000), *RowIds("other", 0).numbered(0, 5000)]
    assert len({*first, *others}) == 15000
    assert first[4711] == "1280736b-4b00-8001-8267-92598f0b8eb8", (
        "in every version: a job may be run again after an upgrade"
    )
    assert RowIds("job", 0).keyed("a") == RowIds("job", 7).keyed("a") != RowIds("other", 0).keyed("a")


def test_the_option_is_the_value_where_the_column_is_null() -> None:
    rows = {"to": ["a", "b"], "queue": ["fast", None], "priority": pa.array([None, 1], pa.int32())}
    (one, two), _ = composed(rows, task="any", queue="slow", priority="8", notBefore="2100-01-01T00:00:00Z")
    assert (one.queue, one.priority, two.queue, two.priority) == ("fast", 8, "slow", 1)
    assert one.not_before == two.not_before == datetime(2100, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "The write names no task"),
        ({"task": "mail.sned", "app": APP}, "did you mean mail.send?"),
        ({"task": "mail.once", "app": APP}, "Task mail.once is unique"),
        ({"task": "mail.note", "app": APP}, "mail.note is missing 'text'"),
        ({"task": "a b"}, "Task name 'a b' is not allowed"),
        ({"task": "t", "ques": "x"}, "'ques' is not an option of a write"),
        ({"task": "t", "path": "x"}, "A store has no path"),
        ({"task": "t", "onBadRow": "skip"}, "neither fail nor reject"),
        ({"task": "t", "onBadRow": "reject"}, "needs a place for the bad rows"),
        ({"task": "t", "rejects": "x"}, "onBadRow is not reject"),
        ({"task": "t", "key": "ordr"}, "'ordr', which is no column"),
        ({"task": "t", "queueColumn": "too"}, "did you mean to?"),
        ({"task": "t", "queue": "a b"}, "Queue 'a b' is not allowed"),
        ({"task": "t", "priority": "high"}, "priority 'high' is not"),
        ({"task": "t", "notBefore": "soon"}, "notBefore 'soon' is not a moment"),
        ({"task": "t", "headers": "x"}, "not a JSON object of texts"),
        ({"task": "t", "argsColumn": "to"}, "'copies' is no argument beside argsColumn"),
        ({"task": "t", "job": "x" * 180}, "is not 1 to 150 printable"),
        ({"task": "t", "url": "memory://"}, "memory:// lives in one process"),
        ({"task": "t", "url": "mysql://x"}, "is not a store that Stem knows"),
        ({"task": "t", "app": "no.such:app"}, "There is no module 'no'"),
    ],
)
def test_impossible_options_are_refused_in_one_sentence(options: dict[str, str], said: str) -> None:
    with pytest.raises(StemError) as caught:
        check_against_app(write_options({"url": "sqlite:////nowhere/x.db", **options}, ["to", "copies"]))
    assert said in str(caught.value)


def test_results_that_live_elsewhere_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEM_RESULT_BACKEND_URL", "redis://elsewhere")
    with pytest.raises(StemError, match="tasks and results together"):
        write_options({"task": "t"}, ["to"])


def test_a_store_that_is_not_on_this_machine_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StemError, match="Spark runs on several machines"):
        write_options({"task": "t", "url": f"sqlite:///{tmp_path}/x.db"}, ["to"]).open()
    assert list(tmp_path.iterdir()) == []


def test_the_sentence_is_found_in_what_spark_makes_of_it() -> None:
    trace = "[PYTHON_DATA_SOURCE_ERROR] Failed\nTraceback:\n  DataFile x\nstem.core.errors.UsageError: Say it; so.\n\n"
    said = quoted(RuntimeError(trace))
    assert (type(said), str(said)) == (UsageError, "Say it; so.")
    assert quoted(RuntimeError("ValueError: other")) is None


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ({"coin": ["t0psecret"]}, {"task": "change"}),
        ({"args": ['{"coin": "t0psecret"}']}, {"task": "change", "argsColumn": "args"}),
        ({"args": [{"coin": "t0psecret"}]}, {"task": "change", "argsColumn": "args"}),
        ({"args": ['{"coin": "t0psecret"']}, {"task": "change", "argsColumn": "args"}),
        ({"coin": ["t0psecret"], "task": ["chagne"]}, {}),
    ],
)
def test_a_reject_does_not_show_a_sensitive_argument(rows: dict[str, list[Any]], options: dict[str, str]) -> None:
    good, (bad,) = composed(rows, app="support.worker_apps.paying:app", **options)
    assert good == [] and "t0psecret" not in bad.reason and "t0psecret" not in bad.data and "***" in bad.data
