"""What was counted of each minute is replaced by key, read by minute, and goes with the events it was counted from."""

from datetime import UTC, datetime, timedelta

import pytest

from conftest import OpenStore
from stem.contracts.rollups import ROWS_AT_ONCE, Measures, MinuteRow, merged
from stem.contracts.store import Store
from stem.core.record import moment
from stem.core.settings.app import Retention
from support.until import until

NOON = datetime.now(UTC).replace(second=0, microsecond=0)
EVER = (NOON - timedelta(days=1), NOON + timedelta(days=1))
MINUTE = timedelta(minutes=1)


def a_row(minute: datetime = NOON, name: str | None = "mail.send", *, done: int = 1, **key: str) -> MinuteRow:
    return MinuteRow(minute=minute, name=name, **key, measures=Measures({"succeeded": done}))


def test_a_row_is_kept_as_it_was_put_and_replaced_by_the_next_of_its_minute_and_key(
    store: Store, open_store: OpenStore
) -> None:
    told = MinuteRow(
        minute=NOON,
        name="mäil \x00 'send'" + "x" * 4000,
        queue="default",
        worker="w",
        tenant="",
        measures=Measures({"succeeded": 2, "run_seconds": 0.25}, {"run_most": 0.2}, {"run": {-1000: 1, -70: 1, 12: 3}}),
    )
    others = [a_row(), a_row(queue="q"), a_row(worker="q"), a_row(tenant="q"), a_row(name=None), a_row(NOON + MINUTE)]
    store.rollups.put([told, *others, a_row(done=7)])
    assert told in list(open_store().rollups.read(*EVER))
    store.rollups.put([a_row(done=9)])
    found = list(open_store().rollups.read(*EVER))
    assert len(found) == 1 + len(others)
    assert a_row(done=9) in found
    assert list(open_store("elsewhere").rollups.read(*EVER)) == []


def test_rows_come_by_minute_from_the_first_asked_for_up_to_the_last(store: Store) -> None:
    minutes = [NOON + MINUTE * n for n in range(30)]
    store.rollups.put(a_row(minute, f"task{n}") for minute in reversed(minutes) for n in range(2))
    found = [row.minute for row in store.rollups.read(minutes[3], minutes[28])]
    assert found == sorted(minutes[3:28] * 2)
    assert list(store.rollups.read(minutes[3], minutes[3])) == []


def test_more_rows_than_a_transaction_takes_are_all_put(store: Store) -> None:
    store.rollups.put([])
    store.rollups.put(a_row(name=f"task{n}") for n in range(2 * ROWS_AT_ONCE + 1))
    assert merged(store.rollups.read(*EVER), ["minute"]) == {(NOON,): Measures({"succeeded": 2 * ROWS_AT_ONCE + 1})}


def test_minutes_are_kept_as_long_as_events_and_no_longer(open_store: OpenStore) -> None:
    store = open_store(retention=Retention(events_seconds=0.3))
    now = store.upkeep.now()
    later = a_row(moment(now + 3600))
    store.rollups.put([a_row(moment(now)), later])
    assert len(list(store.rollups.read(*EVER))) == 2 or store.upkeep.now() >= now + 0.3

    def is_gone() -> bool:
        while store.upkeep.prune():
            pass
        return list(store.rollups.read(*EVER)) == [later]

    until(is_gone)
    assert store.upkeep.now() >= now + 0.25
    until(lambda: store.upkeep.prune() == 0)  # a minute may expire by itself, and leave its place in an index
    assert list(store.rollups.read(*EVER)) == [later]


def test_rows_that_are_merged_add_up_keep_the_most_and_count_durations_together() -> None:
    first = Measures({"succeeded": 1}, {"run_most": 2.0}, {"run": {0: 1, 35: 1}})
    second = Measures({"succeeded": 2, "failed": 1}, {"run_most": 1.0}, {"run": {35: 97, 70: 1}})
    rows = [MinuteRow(minute=NOON, name="a", worker=w, measures=m) for w, m in (("v", first), ("w", second))]
    found = merged([*rows, a_row(name="b")], ["name"])
    assert found[("b",)] == Measures({"succeeded": 1})
    assert found[("a",)].histograms == {"run": {0: 1, 35: 98, 70: 1}}
    shown = found[("a",)].shown()
    assert {name: shown[name] for name in ("succeeded", "failed", "run_most", "runs")} == {
        "succeeded": 3, "failed": 1, "run_most": 2.0, "runs": 100,
    }  # fmt: skip
    assert shown["run_p50"] == pytest.approx(1.02**35, rel=0.01)
