"""Where keys are set, only signed revokes and pauses have an effect: the attack on each store, and on the file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conftest import BACKENDS, url_of
from stem.backends.memory import connect as connect_memory
from stem.client.stores import RevokeStore
from stem.contracts.store import Store
from stem.control.caller import SIGNED_EXTRA, Caller
from stem.control.pausing import Pausing
from stem.control.revoking import _brief, revoke
from stem.control.sealing import Trust
from stem.core.delivery import Delivery, Lease
from stem.core.errors import ConfigError, StoreUnavailable, UsageError
from stem.core.outcome import Cancelled, Requeue
from stem.core.pause import pause_id
from stem.core.revoke import RevokeRecord, RevokeRequest, read_seal
from stem.core.settings.app import Settings
from stem.runtime.keys import Keyring
from stem.worker.admission import revoke_cache as revoked_tasks
from stem.worker.admission.revoke_follower import RevokeFollower
from support.stores.revoke_stores import open_revokes
from support.until import until
from support.workers.steerable import beat, on_duty

KEYS = Keyring.parse("ops:hmac-sha256:" + "b3Bz" * 8)
STRANGERS = Keyring.parse("ops:hmac-sha256:" + "eHh4" * 8)
PUBLIC = Keyring.parse("ops:ed25519-public:" + "b3Bz" * 10 + "b3A=")
QUEUES = ["default", "mail"]


@pytest.fixture(params=(*BACKENDS, "file"))
def marks_at(request: pytest.FixtureRequest, tmp_path: Path, namespace: str) -> Iterator[RevokeStore]:
    """Where revokes are kept; anybody can write there."""
    url = f"file://{tmp_path}/revokes.stem" if request.param == "file" else url_of(request.param, request, tmp_path)
    opened = open_revokes(url, namespace)
    yield opened
    opened.close()


@pytest.fixture
def desk(namespace: str) -> Iterator[Store]:
    """Where heartbeats, locks and mail are."""
    opened = connect_memory(f"memory://{namespace}", Settings(namespace=namespace))
    yield opened
    opened.upkeep.close()


def worker(at: RevokeStore, namespace: str, keys: Keyring = KEYS) -> RevokeFollower:
    """What a worker makes of the store when it starts."""
    marks = RevokeFollower(at, QUEUES, "w1", Trust(keys, namespace))
    marks.load()
    return marks


def sign_and_put(at: RevokeStore, desk: Store, *ids: str, keys: Keyring = KEYS, **how: Any) -> list[RevokeRecord]:
    requests = [RevokeRequest(task_id=id, **how) for id in ids]
    return list(revoke(at.revokes, Caller(desk, keys), requests).records)


def pausing(at: RevokeStore, desk: Store, keys: Keyring = KEYS) -> Pausing:
    return Pausing(at.revokes, desk.locks, Caller(desk, keys))


def put_back(at: RevokeStore, record: RevokeRecord) -> None:
    """As somebody does who has recorded it: all but the version, which the store gives."""
    fields = {name: getattr(record, name) for name in RevokeRequest.__struct_fields__ if name != "expires_seconds"}
    at.revokes.put([RevokeRequest(**fields)])


def cancelled(marks: RevokeFollower, *ids: str) -> list[str]:
    deliveries = [Delivery(Lease(id, 1), "t", "default", 0, 0, b"{}") for id in ids]
    rest, endings = marks.admit(deliveries)
    assert all(isinstance(ending.settlement, Cancelled) for _, ending in endings)
    assert {each.lease.id for each in rest} == set(ids) - {ending.lease.id for _, ending in endings}
    return [ending.lease.id for _, ending in endings]


def test_a_seal_is_read_back_whole(marks_at: RevokeStore, desk: Store) -> None:
    how: dict[str, Any] = {
        "reason": "r",
        "requester": "me",
        "terminate": True,
        "signal": "SIGINT",
        "expires_seconds": 60,
    }
    (put,) = sign_and_put(marks_at, desk, "a", **how)
    assert marks_at.revokes.get(["a"]) == {"a": put}
    assert marks_at.revokes.since(0, limit=10) == [put]
    seal = Trust(KEYS, desk.namespace).seal_of(put)
    assert seal is not None and put.expires_at is not None and seal == read_seal(put.seal)
    assert abs(seal.expires_at - put.expires_at.timestamp()) < 30


def test_unsigned_and_badly_signed_revokes_stop_nothing_before_or_after_the_start(
    marks_at: RevokeStore, desk: Store, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    def attack(kind: str) -> list[str]:
        (good,) = sign_and_put(marks_at, desk, f"{kind}-good")
        marks_at.revokes.put([RevokeRequest(task_id=f"{kind}-unsigned", terminate=True, signal="SIGKILL")])
        sign_and_put(marks_at, desk, f"{kind}-stranger", keys=STRANGERS)
        marks_at.revokes.put([RevokeRequest(task_id=f"{kind}-copied", seal=good.seal)])
        put_back(marks_at, msgspec.structs.replace(good, task_id=f"{kind}-rubbish", seal="1::ops:"))
        (other,) = sign_and_put(marks_at, desk, f"{kind}-stronger", reason="x")
        put_back(marks_at, msgspec.structs.replace(other, terminate=True, signal="SIGKILL"))
        return [f"{kind}-{each}" for each in ("good", "unsigned", "stranger", "copied", "rubbish", "stronger")]

    hydrated = attack("before")
    marks = worker(marks_at, namespace)
    assert cancelled(marks, *hydrated) == ["before-good"]
    followed = attack("after")
    assert marks.refresh()
    # The weaker mark that was signed is not in the store any more; the stronger one was never signed.
    assert set(cancelled(marks, *followed)) <= {"after-good", "after-stronger"}
    assert set(marks.records_for([*hydrated, *followed])) == {"before-good", "after-good"}, "nothing else is terminated"
    assert marks.ignored == 10
    lines = [each.getMessage() for each in caplog.records if each.getMessage().startswith("revokes.ignored")]
    assert len(lines) == 1 and "(and 4 more" in lines[0], "summed up"


def test_a_signature_for_another_namespace_does_not_count(marks_at: RevokeStore, desk: Store, namespace: str) -> None:
    (record,) = sign_and_put(marks_at, desk, "a")
    assert cancelled(worker(marks_at, f"{namespace}-other"), "a") == []
    assert Trust(KEYS, namespace).counts(record)


def test_an_unsigned_mark_does_not_undo_a_signed_one(marks_at: RevokeStore, desk: Store, namespace: str) -> None:
    marks = worker(marks_at, namespace)
    sign_and_put(marks_at, desk, "a", terminate=True)
    marks.refresh()
    marks_at.revokes.put([RevokeRequest(task_id="a", expires_seconds=0.001)])
    marks_at.revokes.put([RevokeRequest(task_id="a")])
    assert not marks.refresh()
    assert cancelled(marks, "a") == ["a"]


def test_an_older_signed_record_is_not_put_over_a_newer_one(marks_at: RevokeStore, desk: Store, namespace: str) -> None:
    (forever,) = sign_and_put(marks_at, desk, "a")
    marks = worker(marks_at, namespace)
    (brief,) = sign_and_put(marks_at, desk, "a", expires_seconds=3600)
    marks.refresh()
    put_back(marks_at, forever)
    assert not marks.refresh()
    assert marks.ignored == 1
    seals = [read_seal(each.seal) for each in (forever, brief)]
    assert seals[0] is not None and seals[1] is not None and seals[0].stamp < seals[1].stamp


def test_an_older_signed_terminate_is_not_added_to_a_newer_revoke(
    marks_at: RevokeStore, desk: Store, namespace: str
) -> None:
    (deadly,) = sign_and_put(marks_at, desk, "a", terminate=True, signal="SIGKILL")
    marks = worker(marks_at, namespace)
    sign_and_put(marks_at, desk, "a")
    marks.refresh()
    assert [each.terminate for each in marks.records_for(["a"]).values()] == [False]
    put_back(marks_at, deadly)
    marks.refresh()
    assert marks.records_for(["a"]) == {}, "nothing to be done to what runs"
    assert cancelled(marks, "a") == ["a"], "and what has not begun stays revoked"


def test_an_older_signed_terminate_is_not_added_to_a_revoke_that_a_command_brought(
    marks_at: RevokeStore, desk: Store, namespace: str
) -> None:
    (deadly,) = sign_and_put(marks_at, desk, "a", terminate=True, signal="SIGKILL")
    marks = RevokeFollower(marks_at, QUEUES, "w1", Trust(KEYS, namespace))
    (newer,) = sign_and_put(marks_at, desk, "a")
    brought = msgspec.convert(_brief(newer), RevokeRecord)
    assert marks.apply([brought]) == [brought]
    put_back(marks_at, deadly)
    marks.refresh()
    assert marks.records_for(["a"]) == {}
    assert cancelled(marks, "a") == ["a"]


def test_an_older_signed_terminate_that_was_read_first_yields_to_the_command(
    marks_at: RevokeStore, desk: Store, namespace: str
) -> None:
    """It was put back so quickly that the worker has read it, with a later version, before it was told of the newer one."""
    (deadly,) = sign_and_put(marks_at, desk, "a", terminate=True, signal="SIGKILL")
    (newer,) = sign_and_put(marks_at, desk, "a")
    put_back(marks_at, deadly)
    marks = worker(marks_at, namespace)
    brought = msgspec.convert(_brief(newer), RevokeRecord)
    assert marks.apply([brought]) == [brought]
    assert marks.records_for(["a"]) == {}
    marks.refresh()
    assert marks.records_for(["a"]) == {}
    assert cancelled(marks, "a") == ["a"]


def test_an_older_signed_record_is_not_put_in_the_place_of_one_that_has_expired(desk: Store, namespace: str) -> None:
    at = RevokeStore(url="", revokes=desk.revokes, now=desk.upkeep.now, close=lambda: None)
    (forever,) = sign_and_put(at, desk, "a")
    marks = worker(at, namespace)
    (brief,) = sign_and_put(at, desk, "a", expires_seconds=0.05)
    marks.refresh()
    end = read_seal(brief.seal)
    until(lambda: end is not None and at.now() > end.expires_at)
    marks.prune()
    put_back(at, forever)
    marks.refresh()
    assert cancelled(marks, "a") == []


def test_an_end_that_was_signed_cannot_be_put_off(marks_at: RevokeStore, desk: Store, namespace: str) -> None:
    (record,) = sign_and_put(marks_at, desk, "a", expires_seconds=0.05)
    put_back(marks_at, record)  # without an end of its own
    marks = worker(marks_at, namespace)
    end = read_seal(record.seal)
    assert end is not None
    until(lambda: marks_at.now() > end.expires_at)
    marks.refresh()
    assert cancelled(marks, "a") == []


def test_an_unsigned_pause_pauses_nothing_and_an_unsigned_resume_resumes_nothing(
    marks_at: RevokeStore, desk: Store, namespace: str
) -> None:
    marks_at.revokes.put([RevokeRequest(task_id=pause_id("default"), reason="*")])
    marks = worker(marks_at, namespace)
    assert marks.paused == frozenset()
    pausing(marks_at, desk).pause(["mail"])
    marks.refresh()
    assert marks.paused == {"mail"}
    marks_at.revokes.put([RevokeRequest(task_id=pause_id("mail"), reason="", expires_seconds=0.001)])
    marks_at.revokes.put([RevokeRequest(task_id=pause_id("default"), reason="w1")])
    marks.refresh()
    assert marks.paused == {"mail"}
    marks_at.revokes.prune()
    marks.refresh()
    assert marks.paused == {"mail"}, "gone is not resumed"
    pausing(marks_at, desk).resume(["mail"])
    marks.refresh()
    assert marks.paused == frozenset()
    assert worker(marks_at, namespace).paused == frozenset(), "also for one that starts now"


def test_a_pause_that_was_resumed_is_not_put_back(marks_at: RevokeStore, desk: Store, namespace: str) -> None:
    marks = worker(marks_at, namespace)
    pausing(marks_at, desk).pause(["mail"])
    (record,) = marks_at.revokes.get([pause_id("mail")]).values()
    marks.refresh()
    pausing(marks_at, desk).resume(["mail"])
    marks.refresh()
    put_back(marks_at, record)
    marks.refresh()
    assert marks.paused == frozenset()


def test_an_unsigned_scope_does_not_become_signed_by_the_next_command(
    marks_at: RevokeStore, desk: Store, namespace: str
) -> None:
    marks_at.revokes.put([RevokeRequest(task_id=pause_id("mail"), reason="*")])
    assert pausing(marks_at, desk).pause(["mail"], workers=["w2"]).scopes == {"mail": "w2"}
    assert worker(marks_at, namespace).paused == frozenset()


def test_an_old_scope_that_was_put_back_does_not_become_signed_anew(
    marks_at: RevokeStore, desk: Store, namespace: str
) -> None:
    marks, operator = worker(marks_at, namespace), pausing(marks_at, desk)
    with on_duty(desk, "w1", keyring=KEYS) as (there,):
        there.worker.queue_status = lambda: {"mail": marks.signed_pause("mail")}  # type: ignore[method-assign]
        operator.pause(["mail"])
        (record,) = marks_at.revokes.get([pause_id("mail")]).values()
        operator.resume(["mail"])
        marks.refresh()
        put_back(marks_at, record)
        assert operator.pause(["mail"], workers=["w2"]).scopes == {"mail": "w2"}
        marks.refresh()
        assert marks.paused == frozenset()


def test_an_old_scope_that_is_put_back_before_any_worker_reads_the_store_is_not_signed_anew(
    marks_at: RevokeStore, desk: Store, namespace: str
) -> None:
    """The command itself has told the workers what was signed."""
    marks, operator = worker(marks_at, namespace), pausing(marks_at, desk)
    with on_duty(desk, "w1", keyring=KEYS) as (there,):
        there.worker.queue_status = lambda: {"mail": marks.signed_pause("mail")}  # type: ignore[method-assign]
        there.worker.note_pauses = marks.note_pauses  # type: ignore[method-assign]
        operator.pause(["mail"])
        (record,) = marks_at.revokes.get([pause_id("mail")]).values()
        operator.resume(["mail"])
        put_back(marks_at, record)
        marks.refresh()
        assert marks.paused == frozenset()
        assert operator.pause(["mail"], workers=["w2"]).scopes == {"mail": "w2"}
        marks.refresh()
        assert marks.paused == frozenset()


def test_a_scope_that_was_removed_goes_on_in_what_is_signed_next(
    marks_at: RevokeStore, desk: Store, namespace: str
) -> None:
    marks, operator = worker(marks_at, namespace), pausing(marks_at, desk)
    with on_duty(desk, "w1", keyring=KEYS) as (there,):
        there.worker.queue_status = lambda: {"mail": marks.signed_pause("mail")}  # type: ignore[method-assign]
        operator.pause(["mail"], workers=["w1"])
        marks.refresh()
        marks_at.revokes.put([RevokeRequest(task_id=pause_id("mail"), expires_seconds=0.001)])
        assert operator.pause(["mail"], workers=["w2"]).scopes == {"mail": "w1,w2"}


def test_without_a_key_nothing_is_written_where_workers_ask_for_one(marks_at: RevokeStore, desk: Store) -> None:
    sign_and_put(marks_at, desk, "known")
    before = marks_at.revokes.version()
    nobody = Keyring({})
    with pytest.raises(ConfigError, match="nothing was written; set STEM_CONTROL_KEYS"):
        sign_and_put(marks_at, desk, "known", keys=nobody)  # it stands there signed, so there are keys
    signs: dict[str, Any] = {SIGNED_EXTRA: True}
    beat(desk, "w1", **signs)
    for attempt in (
        lambda: sign_and_put(marks_at, desk, "other", keys=nobody),
        lambda: pausing(marks_at, desk, nobody).pause(["mail"]),
        lambda: pausing(marks_at, desk, nobody).resume(["mail"]),
    ):
        with pytest.raises(ConfigError, match="nothing was written; set STEM_CONTROL_KEYS"):
            attempt()
    with pytest.raises(UsageError, match="None of the signing keys can sign"):
        sign_and_put(marks_at, desk, "other", keys=PUBLIC)
    assert marks_at.revokes.version() == before


def test_without_keys_all_is_as_it_was(marks_at: RevokeStore, desk: Store, namespace: str) -> None:
    nobody = Keyring({})
    sign_and_put(marks_at, desk, "a", keys=nobody)
    pausing(marks_at, desk, nobody).pause(["mail"])
    marks = worker(marks_at, namespace, nobody)
    assert (cancelled(marks, "a", "b"), set(marks.paused), marks.ignored) == (["a"], {"mail"}, 0)
    pausing(marks_at, desk, nobody).resume(["mail"])
    marks.refresh()
    assert marks.paused == frozenset()


def test_many_marks_are_verified_when_they_are_met_or_bit_by_bit(
    desk: Store, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revoked_tasks, "VERIFY_AT_ONCE", 3)
    at = RevokeStore(url="", revokes=desk.revokes, now=desk.upkeep.now, close=lambda: None)
    sign_and_put(at, desk, *(f"good-{n}" for n in range(10)))
    at.revokes.put([RevokeRequest(task_id=f"bad-{n}") for n in range(10)])
    marks = worker(at, namespace)
    assert len(marks.revoked) == 20
    assert cancelled(marks, "bad-9", "good-9", "bad-8", "other") == ["good-9"]
    assert marks.ignored == 2
    for _ in range(10):
        marks.refresh()
    assert (len(marks.revoked), marks.ignored) == (10, 10)


def test_a_revoke_that_cannot_be_verified_now_is_neither_run_nor_cancelled(
    desk: Store, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revoked_tasks, "VERIFY_AT_ONCE", 0)
    at = RevokeStore(url="", revokes=desk.revokes, now=desk.upkeep.now, close=lambda: None)
    sign_and_put(at, desk, "a")
    marks = worker(at, namespace)

    def gone(_ids: object) -> Callable[[], None]:
        raise StoreUnavailable("Gone.")

    monkeypatch.setattr(desk.revokes, "get", gone)
    rest, endings = marks.admit([Delivery(Lease(id, 1), "t", "default", 0, 0, b"{}") for id in ("a", "b")])
    assert [each.lease.id for each in rest] == ["b"]
    ((_, ending),) = endings
    assert ending.lease.id == "a" and isinstance(ending.settlement, Requeue)
