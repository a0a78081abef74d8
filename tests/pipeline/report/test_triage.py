"""Dead letters by what they died of."""

from pathlib import Path

import pytest

from stem.backends import connect
from stem.cli.main import run as stem
from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.errors import DeadLetterNotFound
from stem.core.record import TaskError
from stem.core.settings.app import Settings
from stem.core.text.fingerprint import fingerprint
from stem.pipeline.report.triage import replay, triage
from support.builders import a_push, dead


@pytest.fixture
def graves(durable_store: Store) -> Store:
    """Seven letters of three kinds."""
    durable_store.broker.push([a_push(f"t{n}", name="mail.send" if n < 5 else "report.make") for n in range(7)])
    deliveries = durable_store.broker.claim(["default"], limit=7, lease_seconds=60)
    durable_store.broker.settle(
        [
            dead(
                each,
                reason="not-retryable",
                error=TaskError("ValueError", f"no user {each.lease.id}7" if n != 4 else "full"),
            )
            for n, each in enumerate(deliveries)
        ],
        worker="w1",
    )
    return durable_store


def test_letters_that_differ_only_in_numbers_are_one_cluster_with_counts_times_and_samples(graves: Store) -> None:
    many, two, one = triage(graves)
    assert [(c.count, c.task, c.pattern) for c in (many, two, one)] == [
        (4, "mail.send", "no user t<n>"),
        (2, "report.make", "no user t<n>"),
        (1, "mail.send", "full"),
    ]
    assert many.first_at <= many.last_at
    assert len(many.sample_ids) == 3
    assert sum(each.count for each in triage(graves, DeadFilter(name="mail.send"))) == 5


def test_a_cluster_is_replayed_whole_and_once_and_no_other(graves: Store) -> None:
    many, two, one = triage(graves)
    assert len(replay(graves, many.id, dry_run=True)) == 4
    assert sorted(replay(graves, many.id)) == ["t0", "t1", "t2", "t3"]
    assert {each.id for each in triage(graves)} == {two.id, one.id}
    assert graves.broker.depth()["default"].ready == 4
    with pytest.raises(DeadLetterNotFound, match="No dead letter is in cluster"):
        replay(graves, many.id)


def test_an_id_of_a_report_replays_its_error_within_the_filter(graves: Store) -> None:
    """A report knows an error by its type and message alone; the filter names the task beside it."""
    of_error = fingerprint("ValueError", "no user t07")
    assert len(replay(graves, of_error, dry_run=True)) == 6
    assert sorted(replay(graves, of_error, DeadFilter(name="report.make"))) == ["t5", "t6"]
    with pytest.raises(DeadLetterNotFound):
        replay(graves, of_error, DeadFilter(name="report.make"))


def test_keys_that_were_not_there_are_clusters_of_their_own(durable_store: Store) -> None:
    durable_store.broker.push([a_push(f"k{n}", name="order.price") for n in range(5)])
    deliveries = durable_store.broker.claim(["default"], limit=5, lease_seconds=60)
    errors = [TaskError("KeyError", "'country'" if n < 3 else "'price'") for n in range(5)]
    durable_store.broker.settle(
        [dead(each, reason="not-retryable", error=error) for each, error in zip(deliveries, errors, strict=True)],
        worker="w1",
    )
    assert [(each.count, each.pattern) for each in triage(durable_store)] == [(3, "'country'"), (2, "'price'")]


def test_the_command_fits_a_terminal_and_replays_what_it_was_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STEM_BROKER_URL", f"sqlite:///{tmp_path}/stem.db")
    store = connect(f"sqlite:///{tmp_path}/stem.db", Settings())
    names = ["shop.reports.daily_revenue_by_country", "mail.send"]
    store.broker.push([a_push(name=names[n % 2]) for n in range(6)])
    error = TaskError("ConnectionError", "the host refused the connection again and again " * 5)
    store.broker.settle(
        [dead(each, error=error) for each in store.broker.claim(["default"], limit=6, lease_seconds=60)], worker="w1"
    )
    store.upkeep.close()
    assert stem(["pipeline", "triage"]) == 0
    out = capfd.readouterr().out
    assert max(map(len, out.splitlines())) <= 80 and out.count("3 letters") == 2
    found = fingerprint(error.type, error.message)
    assert stem(["pipeline", "triage", "--replay", found, "--name", "mail.send"]) == 0
    assert capfd.readouterr().out == "Replayed 3.\n"
    assert stem(["pipeline", "triage", "--replay", found, "--name", "mail.send"]) == 1
