"""The bridge by itself: schedules, settings, refusals, JSON, and the signals of workers and schedulers."""

import signal
import subprocess
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import pytest
from celery.schedules import crontab as celery_crontab

from compat.side_by_side import BIN
from stem.calendar.parse import parse
from stem.client.loading import load
from stem.compat.celery import Celery, refused, signals
from stem.compat.celery.app.conf import broker_url
from stem.compat.celery.codec import from_wire, to_wire
from stem.compat.celery.refused import NotBridged, NotImportable
from stem.compat.celery.schedules import crontab, schedule, solar
from support.until import until

CRONTABS = [
    {},
    {"minute": "*/15"},
    {"minute": 0, "hour": "*/3,8-17"},
    {"minute": 30, "hour": 7, "day_of_week": 1},
    {"minute": 0, "hour": 0, "day_of_month": "1-7", "day_of_week": "mon"},
    {"minute": 0, "hour": 12, "day_of_month": "13", "day_of_week": "fri"},
    {"minute": "0", "hour": "9", "day_of_month": "*/2", "day_of_week": "sat,sun"},
    {"minute": 5, "hour": {6, 18}, "month_of_year": "*/3"},
    {"minute": 0, "hour": 0, "day_of_week": "thu-mon"},
]


@pytest.mark.parametrize("fields", CRONTABS)
def test_a_crontab_comes_due_when_celerys_does(fields: dict[str, object]) -> None:
    start = datetime(2026, 1, 30, 23, 59, 30, tzinfo=UTC)
    ours, theirs = parse(crontab(**fields).spec), celery_crontab(**fields, nowfun=lambda: start)
    moment = start
    for _ in range(12):
        due_in = theirs.remaining_delta(moment, tz=UTC)
        expected = (due_in[0] + due_in[1]).astimezone(UTC)
        found = ours.next_after(moment)
        assert found == expected.replace(microsecond=0)
        moment = expected
    assert moment > start


def test_intervals_and_the_sun_have_expressions_of_stem() -> None:
    assert schedule(30.0).spec == "every 30 seconds"
    assert schedule(timedelta(hours=1)).spec == "every 3600 seconds"
    assert solar("sunset", 52.5, 13.4).spec == "sunset"
    with pytest.raises(NotBridged, match="whole seconds"):
        _ = schedule(0.5).spec


def test_beat_schedule_and_periodic_tasks_become_entries_with_arguments_and_options() -> None:
    app = Celery("beat", broker="memory://celery-beat", set_as_current=False)
    app.conf.timezone = "Europe/Berlin"

    @app.task(name="beat.report")
    def report(x: int, y: int = 0) -> None: ...

    @app.on_after_configure.connect
    def set_up(sender: Celery, **_more: object) -> None:
        sender.add_periodic_task(10.0, report.s(1), name="every ten")

    app.conf.beat_schedule = {
        "first monday": {
            "task": "beat.report",
            "schedule": crontab(minute=0, hour=6, day_of_month="1-7", day_of_week="mon"),
            "args": (1,),
            "kwargs": {"y": 2},
            "options": {"queue": "slow", "expires": 60},
        }
    }
    entries = {entry.id: entry for entry in app.stem.schedules}
    first = entries["first-monday"]
    assert (first.spec, first.time_zone) == ("0 6 1-7 * &mon", "Europe/Berlin")
    assert (first.args, first.options) == ({"_args": [1], "y": 2}, {"queue": "slow", "expires": 60.0})
    assert entries["every-ten"].spec == "every 10 seconds"


def test_settings_come_from_objects_old_names_and_namespaces() -> None:
    app = Celery("conf", set_as_current=False)
    app.config_from_object(
        {"CELERY_TASK_ALWAYS_EAGER": True, "CELERY_BROKER_URL": "memory://x", "OTHER": 1}, namespace="CELERY"
    )
    assert app.conf.task_always_eager is True and app.conf.broker_url == "memory://x"
    app.config_from_object({"CELERYBEAT_SCHEDULE": {"a": 1}, "task_default_queue": "main"})
    assert app.conf.beat_schedule == {"a": 1} and app.conf["task_default_queue"] == "main"
    app.conf.update(timezone="UTC")
    assert app.conf.timezone == "UTC"


@pytest.mark.parametrize("url", ["amqp://guest@localhost//", "sqs://", "sentinel://localhost:26379"])
def test_a_broker_that_stem_has_not_is_refused_with_a_remedy(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = Celery("x", broker=url, set_as_current=False)
    with pytest.raises(NotBridged, match="STEM_BROKER_URL"):
        _ = app.stem
    monkeypatch.setenv("STEM_BROKER_URL", "memory://instead")
    assert broker_url(app.conf) is None
    assert app.stem.settings.broker_url == "memory://instead"


def test_what_is_not_mapped_is_refused_with_a_sentence() -> None:
    app = Celery("x", broker="memory://refusing", set_as_current=False)

    @app.task
    def add(x: int) -> int:
        return x

    with pytest.raises(NotBridged, match=r"app\.amqp .* name queues"):
        _ = app.amqp
    with pytest.raises(NotBridged, match=r"use queue="):
        add.apply_async((1,), routing_key="x")
    with pytest.raises(NotBridged, match=r"JSON only"):
        add.apply_async((1,), serializer="pickle")
    with pytest.raises(NotImportable, match="event log"):
        from stem.compat.celery.signals import task_received  # noqa: F401
    with pytest.raises(NotBridged, match="JSON only"):
        _ = Celery("y", broker="memory://y", task_serializer="pickle", set_as_current=False).stem
    assert not hasattr(app, "never_heard_of")


def test_every_refusal_is_a_sentence() -> None:
    tables = (
        refused.MODULES,
        refused.NAMES,
        refused.APP,
        refused.TASK,
        refused.CALL,
        refused.SIGNALS,
        refused.CONTROL,
        refused.RESULT,
    )
    assert all(
        (text.endswith((".", "…", "(): …")) and text[0].isupper()) or text[0] == "`"
        for table in tables
        for text in table.values()
    )


def test_json_carries_what_celerys_does() -> None:
    value = {
        "at": datetime(2030, 1, 1, tzinfo=UTC),
        "day": date(2030, 1, 1),
        "price": Decimal("1.5"),
        "id": uuid4(),
        "raw": b"\xff",
    }
    assert from_wire(to_wire([value, (1, 2)])) == [value, [1, 2]]
    assert from_wire({"__type__": "datetime", "__value__": "nonsense"}) == {
        "__type__": "datetime",
        "__value__": "nonsense",
    }


PROJECT = """
import os
from stem.compat.celery import Celery, signals
app = Celery("proj", broker=os.environ["BROKER"])
def note(what):
    with open(os.environ["LEDGER"], "a") as ledger:
        ledger.write(what + "\\n")
signals.setup_logging.connect(lambda **_: note("setup_logging"), weak=False)
@signals.worker_init.connect
def init(**_): note("init")
@signals.worker_ready.connect
def ready(sender=None, **_): note(f"ready {sender.main}")
@signals.worker_process_init.connect
def process(**_): note("process")
@signals.worker_shutdown.connect
def shutdown(**_): note("shutdown")
@signals.beat_init.connect
def beat(**_): note("beat")
@app.task
def add(x, y): return x + y
"""


def test_the_signals_of_a_worker_are_sent_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "signalled_project.py").write_text(PROJECT)
    ledger = tmp_path / "ledger"
    monkeypatch.setenv("BROKER", f"sqlite:///{tmp_path}/stem.db")
    monkeypatch.setenv("LEDGER", str(ledger))
    command: list[str | Path] = [
        BIN / "stem",
        "worker",
        "start",
        "--app",
        "signalled_project:app",
        "--concurrency",
        "1",
    ]
    worker = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: ledger.exists() and "process" in ledger.read_text(), seconds=60)
        assert load(f"{tmp_path}/signalled_project.py:app").tasks["signalled_project.add"]
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    assert ledger.read_text().split("\n") == ["setup_logging", "init", "ready proj", "process", "shutdown", ""]
    assert signals.worker_shutdown.receivers
