"""Dead letters by what they died of."""

import pytest

from stem.contracts.store import Store
from stem.core.delivery import DeadFilter
from stem.core.errors import DeadLetterNotFound
from stem.core.record import TaskError
from stem.pipeline.triage import replay, triage
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
    with pytest.raises(DeadLetterNotFound, match="no cluster"):
        replay(graves, many.id)
