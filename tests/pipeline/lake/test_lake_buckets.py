"""The lake in a bucket of an object store: filled, asked, tended, and shared, as one in a folder is."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stem.backends import connect
from stem.cli.main import run as stem
from stem.contracts.store import Store
from stem.core.errors import LakeRefused
from stem.core.settings.app import Settings
from stem.pipeline.lake import delta, storage
from stem.pipeline.lake import lake as lakes
from stem.pipeline.lake.retention import maintain
from stem.pipeline.lake.stream_to_lake import StreamToLake
from stem.pipeline.report.report import report
from stem.pipeline.rollups.minutes import minutes
from support.pipeline.object_stores import KEY, NAME, SECRET, Bucket, azure_container, gcs_bucket, s3_bucket
from support.pipeline.recount import assert_equals_a_recount
from support.pipeline.written_history import live

EVER = (datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


@pytest.fixture(scope="module")
def server() -> Iterator[Bucket]:
    with s3_bucket() as bucket:
        yield bucket


@pytest.fixture
def bucket(server: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def past(tmp_path: Path) -> Iterator[Store]:
    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    live(store, 200)
    yield store
    store.upkeep.close()


@pytest.mark.parametrize("scheme", ["s3", "s3a", "gs", "abfss"])
def test_a_lake_in_a_bucket_has_each_event_once_and_answers_as_one_in_a_folder(
    spark: SparkSession,
    server: Bucket,
    past: Store,
    scheme: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with a_bucket(scheme, server, tmp_path) as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        root = f"{bucket.root}/{scheme}/lake"
        where = ["--broker-url", past.url, "--lake", root]
        assert stem(["pipeline", "run", "--once", "--batch", "1000", *where]) == 0
        live(past, 100, worker="w2")
        assert stem(["pipeline", "run", "--once", *where]) == 0
        lake, logged = lakes.open_lake(root), past.events.read(None, limit=10_000)
        assert_equals_a_recount(spark, lake, logged)
        maintain(lake, spark, many_files=2, vacuum_hours=0)
        assert_equals_a_recount(spark, lake, logged)
        assert report(lake, spark, since=EVER[0], until=EVER[1]).gaps == [] and minutes(lake, *EVER)
        capfd.readouterr()
        query = "select count(event_offset) as n, max(happened_at) as at from events"
        assert stem(["pipeline", "sql", query, "--format", "json", "--lake", root]) == 0
        assert str(len(logged)) in capfd.readouterr().out
        committed = [lake.events.commit([], app="another", batch=1) for _ in range(2)]
        assert committed == [True, False]


@contextmanager
def a_bucket(scheme: str, s3: Bucket, place: Path) -> Iterator[Bucket]:
    match scheme:
        case "gs":
            with gcs_bucket() as bucket:
                yield bucket
        case "abfss":
            with azure_container(place) as bucket:
                yield bucket
        case _:
            yield replace(s3, root=f"{scheme}://{NAME}")


def test_a_run_from_another_machine_goes_on_where_the_last_one_ended(
    spark: SparkSession, bucket: Bucket, past: Store, tmp_path: Path
) -> None:
    """Nothing of it lies anywhere but in the bucket: an environment and a folder of its own change nothing."""
    root = f"s3://{NAME}/moved"
    StreamToLake(Settings(broker_url=past.url), root).run(lambda: spark)
    live(past, 50)
    command = [sys.executable, "-m", "stem", "pipeline", "run", "--broker-url", past.url, "--lake", root, "--json"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    ran = subprocess.run(
        [*command, "--master", "local[2]"], cwd=elsewhere, capture_output=True, text=True, check=False,
        env={**os.environ, "HOME": str(elsewhere)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    logged = past.events.read(None, limit=10_000)
    assert 0 < json.loads(ran.stdout)["events"] < len(logged)
    assert list(elsewhere.iterdir()) == []
    assert_equals_a_recount(spark, lakes.open_lake(root), logged)


def test_options_of_the_command_do_what_the_environment_does_and_reach_executors(
    spark: SparkSession, server: Bucket, past: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session's Python processes were started without them."""
    for name in server.environment:
        monkeypatch.setenv(name, "")  # restores what the command sets
        monkeypatch.delenv(name)
    given = [word for name, value in server.environment.items() for word in ("--lake-option", f"{name}={value}")]
    root = f"s3://{NAME}/given"
    assert stem(["pipeline", "run", "--broker-url", past.url, "--lake", root, *given]) == 0
    assert_equals_a_recount(spark, lakes.open_lake(root), past.events.read(None, limit=10_000))


def test_of_two_that_begin_a_lake_at_the_same_moment_both_have_the_same(bucket: Bucket) -> None:
    root = f"s3://{NAME}/begun-twice"
    first = lakes._new_manifest(root, "a store")
    assert lakes._new_manifest(root, "a store") == first


def test_errors_of_a_bucket_are_reported_in_one_sentence_without_secrets(
    bucket: Bucket, past: Store, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = ["pipeline", "run", "--broker-url", past.url, "--lake"]
    for root in ("s3://no-such-bucket/lake", f"s3://{KEY}:{SECRET}@{NAME}/lake", "ftp://host/lake"):
        assert stem([*run, root]) != 0
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert stem([*run, f"s3://{NAME}/lake"]) != 0
    told = capfd.readouterr().err
    assert told.count("\n") == 4, told
    assert "No lake can be made" in told and "404" in told
    assert "may hold no credentials" in told and "cannot be at ftp" in told and "cannot be reached" in told
    assert SECRET not in told and "Traceback" not in told


def test_secrets_are_shown_nowhere(bucket: Bucket) -> None:
    table = lakes._lake(f"s3://{NAME}/x", {"id": "1", "source": "a store"}).events
    assert SECRET in table.options.values()
    assert SECRET not in f"{table!r} {table}"
    assert storage.reason(OSError(f"403 for {SECRET} at x"), table.options) == "403 for *** at x"
    with pytest.raises(LakeRefused, match="no credentials"):
        storage.checked("gs://a:b@bucket/lake")


def test_the_error_of_a_batch_is_that_of_the_executor(
    spark: SparkSession, bucket: Bucket, past: Store, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(f"403 Forbidden for {SECRET}")

    monkeypatch.setattr(delta, "_write_partition", refuses)
    assert stem(["pipeline", "run", "--broker-url", past.url, "--lake", f"{bucket.root}/refused"]) != 0
    assert "could not be written into the lake (OSError: 403 Forbidden for ***)" in capfd.readouterr().err
