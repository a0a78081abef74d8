"""Entries of code, of the configuration file and of operators: who owns what, and what becomes of edits."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stem import Settings, Stem
from stem.client.schedules.check import calendar_of
from stem.contracts.schedules import ScheduleEntry
from stem.contracts.store import Store
from stem.core.errors import ConfigError, InvalidSchedule, InvalidTask, SignatureInvalid
from stem.scheduler.beat import Beat
from stem.scheduler.declared import RETIRED, Declarations, store_declared
from stem.scheduler.entries import backfill, run_now
from stem.scheduler.process import Scheduler
from support.client.schedules import break_schedule, due, now, stored, tasks, writer

KEYS = "k1:hmac-sha256:" + "A" * 43 + "="


def declare(app: Stem, *specs: str, origin: str = "shop:app") -> None:
    entries = [ScheduleEntry(id=f"code-{number}", task="note", spec=spec) for number, spec in enumerate(specs)]
    store_declared(writer(app), Declarations("code", origin, entries))


def test_case_27_a_change_at_run_time_is_kept_until_the_code_changes(app: Stem) -> None:
    declare(app, "0 2 * * *")
    writer(app).change("code-0", spec="0 3 * * *")
    declare(app, "0 2 * * *")
    assert _spec(app) == "0 3 * * *"
    declare(app, "0 4 * * *")
    assert _spec(app) == "0 4 * * *"


def _spec(app: Stem) -> str:
    return stored(app, "code-0").entry.spec


def test_case_27_an_entry_that_left_the_code_is_retired_and_comes_back_with_it(app: Stem) -> None:
    declare(app, "0 2 * * *", "0 3 * * *")
    declare(app, "0 2 * * *")
    declare(app, origin="other:app")
    found = {each.entry.id: each.entry for each in app.store.schedules.all()}
    assert found["code-0"].is_enabled
    assert (found["code-1"].is_enabled, found["code-1"].note) == (False, RETIRED["code"])
    declare(app, "0 2 * * *", "0 3 * * *")
    assert all(each.entry.is_enabled for each in app.store.schedules.all())


def test_case_25_an_edit_of_one_entry_moves_no_other(app: Stem) -> None:
    declare(app, "every 1 hour", "every 1 hour")
    before = app.store.schedules.get("code-1")
    writer(app).change("code-0", spec="every 5 minutes")
    assert app.store.schedules.get("code-1") == before


def test_case_26_runs_and_their_last_time_outlive_disabling_and_restarts(app: Stem) -> None:
    due(app)
    Beat(app, "a").tick()
    writer(app).change("it", is_enabled=False)
    saved = writer(app).change("it", is_enabled=True)
    assert saved.state.run_count == 1 and saved.state.last_run_at is not None
    assert Beat(app, "a").tick() == 0
    with Scheduler(app):
        assert stored(app).state.last_run_at == saved.state.last_run_at


def test_a_run_by_hand_and_a_backfill(app: Stem) -> None:
    due(app, spec="every 1 minute")
    run_now(app, "it")
    end = now(app).replace(second=0, microsecond=0)
    period = (end - timedelta(minutes=9), end)
    assert len(list(backfill(app, "it", *period))) == 10
    assert list(backfill(app, "it", *period)) == []
    assert len(tasks(app)) == 11


def test_schedules_are_declared_above_tasks() -> None:
    with Stem("memory://declared") as app:

        @app.schedule("0 2 * * *", args={"text": "night"}, time_zone="Europe/Berlin", jitter="5m", overlap="skip")
        @app.task(name="report")
        def report(text: str) -> None: ...

        (entry,) = app.schedules
        assert (entry.id, entry.task, entry.args) == ("report", "report", {"text": "night"})
        assert (entry.time_zone, entry.jitter_seconds, entry.overlap) == ("Europe/Berlin", 300.0, "skip")
        with pytest.raises(InvalidTask, match="Two schedules have the id report"):
            app.schedule("0 3 * * *", args={"text": "x"})(report)
        with pytest.raises(InvalidTask, match="colour"):
            app.schedule("0 3 * * *", id="b", args={"text": "x", "colour": 1})(report)
        with pytest.raises(InvalidSchedule, match="'61' is no minute"):
            app.schedule("61 * * * *", id="c", args={"text": "x"})(report)
        with pytest.raises(InvalidSchedule, match="overlap"):
            app.schedule("@daily", id="c", args={"text": "x"}, overlap="sometimes")(report)  # type: ignore[arg-type]
        with pytest.raises(InvalidTask, match="needs an expression"):
            app.schedule(report)  # type: ignore[arg-type]
        with pytest.raises(InvalidTask, match="belongs above"):
            app.schedule("0 3 * * *")(len)  # type: ignore[type-var]


# The configuration file

FILE = """
schedules:
- id: nightly
  task: note
  spec: 0 2 * * *
  timeZone: Europe/Berlin
  args: {text: from the file}
- {id: often, task: note, spec: every 5 minutes, overlap: skip, startsAt: 2030-01-31T09:00:00Z}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "stem.yaml"
    path.write_text(FILE)
    return path


def load(app: Stem, file: Path | None, *entries: ScheduleEntry) -> None:
    """What a scheduler does when it starts with this file."""
    app._schedules = {entry.id: entry for entry in entries}
    Scheduler(app, origin="shop:app", config_file=file)._store_declared()


def test_case_27_the_file_declares_entries_of_its_own(app: Stem, file: Path) -> None:
    load(app, file, ScheduleEntry(id="coded", task="note", spec="@daily"))
    writer(app).save(ScheduleEntry(id="added", task="note", spec="@daily"), None)
    owners = {each.entry.id: (each.entry.source, each.entry.origin) for each in app.store.schedules.all()}
    assert owners == {
        "added": ("runtime", ""),
        "coded": ("code", "shop:app"),
        "nightly": ("file", "shop:app"),
        "often": ("file", "shop:app"),
    }
    nightly = stored(app, "nightly").entry
    assert (nightly.time_zone, nightly.args) == ("Europe/Berlin", {"text": "from the file"})
    assert stored(app, "often").entry.starts_at == datetime(2030, 1, 31, 9, tzinfo=UTC)


def test_a_mapping_by_id_says_the_same_as_a_list(app: Stem, file: Path) -> None:
    load(app, file)
    file.write_text(
        "schedules:\n  nightly: {task: note, spec: 0 2 * * *, timeZone: Europe/Berlin, args: {text: from the file}}\n"
    )
    before = stored(app, "nightly")
    load(app, file)
    assert stored(app, "nightly") == before


def test_case_27_an_entry_that_left_the_file_is_retired_and_only_that(app: Stem, file: Path) -> None:
    coded = ScheduleEntry(id="coded", task="note", spec="@daily")
    load(app, file, coded)
    file.write_text("schedules: [{id: often, task: note, spec: every 5 minutes}]")
    load(app, None, coded)  # a scheduler without a file knows nothing of it
    assert all(each.entry.is_enabled for each in app.store.schedules.all())
    load(app, file, coded)
    nightly = stored(app, "nightly").entry
    assert (nightly.is_enabled, nightly.note) == (False, RETIRED["file"])
    assert stored(app, "often").entry.is_enabled and stored(app, "coded").entry.is_enabled
    file.write_text("worker: {}")
    load(app, file, coded)
    assert not stored(app, "often").entry.is_enabled and stored(app, "coded").entry.is_enabled
    file.write_text(FILE)
    load(app, file, coded)
    assert all(each.entry.is_enabled for each in app.store.schedules.all())


def test_case_27_an_edit_of_an_entry_of_the_file_is_kept_until_the_file_changes(app: Stem, file: Path) -> None:
    load(app, file)
    applied = writer(app).edited(ScheduleEntry(id="nightly", task="note", spec="0 5 * * *"), stored(app, "nightly"))
    assert writer(app).save(applied, stored(app, "nightly"))
    load(app, file)
    assert (stored(app, "nightly").entry.spec, stored(app, "nightly").entry.source) == ("0 5 * * *", "file")
    file.write_text(FILE.replace("0 2 * * *", "0 3 * * *"))
    load(app, file)
    assert stored(app, "nightly").entry.spec == "0 3 * * *"


def test_case_28_an_entry_of_the_file_that_was_evicted_is_written_again(app: Stem, file: Path) -> None:
    load(app, file)
    app.store.schedules.delete("nightly")
    load(app, file)
    assert stored(app, "nightly").entry.is_enabled


def test_case_28_a_corrupt_entry_is_named_and_one_of_the_code_heals(
    durable_store: Store, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Stem(settings=Settings(broker_url=durable_store.url, namespace=namespace, timeout_seconds=30.0)) as app:
        load(app, None, ScheduleEntry(id="coded", task="note", spec="@daily"))
        due(app, "added")
        due(app, "fine")
        for entry_id in ("coded", "added"):
            break_schedule(app.store, entry_id)
        assert Beat(app, "a").tick() == 1
        load(app, None, ScheduleEntry(id="coded", task="note", spec="@daily"))
        assert stored(app, "coded").entry.is_enabled
        errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
        assert len(errors) == 1 and errors[0].startswith("schedule.unreadable id=added")


@pytest.mark.parametrize(
    "changes", [{"args": {"text": "new"}}, {"spec": "0 2 * * *"}, {"spec": "@daily", "misfire": "all"}]
)
def test_case_24_an_entry_that_is_edited_while_it_is_due_runs_once(app: Stem, changes: dict[str, Any]) -> None:
    instant = due(app)
    (read,) = app.store.schedules.due(limit=10)
    saved = writer(app).change("it", **changes)
    beat = Beat(app, "a")
    beat._fire(read)  # by a scheduler that read it before the edit: its write is refused
    assert beat.fired == 0
    assert beat.tick() == 1 and beat.tick() == 0
    state = stored(app).state
    assert [run.instant for run in state.history if run.task_id] == [instant]
    assert state.instant is not None and state.instant > now(app)
    assert stored(app).entry.version == saved.entry.version == 2
    if "spec" in changes:  # from now on by the new calendar
        assert state.instant == calendar_of(saved.entry).next_after(now(app))


def test_case_24_an_entry_that_is_disabled_while_it_is_due_does_not_run(app: Stem) -> None:
    due(app)
    writer(app).change("it", is_enabled=False)
    assert Beat(app, "a").tick() == 0


def test_an_instant_that_nobody_fired_for_long_is_not_kept_by_an_edit(app: Stem) -> None:
    due(app, seconds_ago=3600)
    writer(app).change("it", spec="@daily")
    assert Beat(app, "a").tick() == 0


def test_an_entry_that_moves_from_the_file_to_the_code_keeps_its_edit(app: Stem, file: Path) -> None:
    load(app, file)
    writer(app).change("nightly", note="by hand")
    moved = ScheduleEntry(
        id="nightly", task="note", spec="0 2 * * *", time_zone="Europe/Berlin", args={"text": "from the file"}
    )
    file.write_text("schedules: []")
    load(app, file, moved)
    entry = stored(app, "nightly").entry
    assert (entry.source, entry.note, entry.is_enabled) == ("code", "by hand", True)


def test_an_id_that_code_and_file_declare_is_refused(app: Stem, file: Path) -> None:
    with pytest.raises(ConfigError, match="Schedule often is declared by the code and by the configuration file"):
        load(app, file, ScheduleEntry(id="often", task="note", spec="@daily"))


def test_with_keys_a_planted_entry_is_never_taken_for_a_declared_one(
    store_url: str, namespace: str, file: Path
) -> None:
    settings = Settings(broker_url=store_url, namespace=namespace, signing_keys=KEYS, timeout_seconds=30.0)
    with Stem(settings=settings) as app:
        load(app, file)
        for entry_id in ("nightly", "often"):
            found = stored(app, entry_id)
            planted = msgspec.structs.replace(found.entry, args={"text": "planted"}, origin="elsewhere")
            assert app.store.schedules.write(planted, found.state, revision=found.revision)
        file.write_text(FILE.partition("- {id: often")[0])
        load(app, file)
        assert stored(app, "nightly").entry.args == {"text": "from the file"}
        writer(app).check_seal(stored(app, "nightly").entry)
        with pytest.raises(SignatureInvalid):
            writer(app).change("often", note="nobody signs what is not ours")
