"""The probes of a scheduler, asked over HTTP."""

import pytest

from stem import Stem
from stem.core.errors import ConfigError
from stem.scheduler.process import Scheduler
from support.client.schedules import due
from support.until import until
from support.workers.probes import Probe


def test_a_scheduler_tells_whether_it_leads_and_how_late_it_is(app: Stem) -> None:
    probe = Probe()
    due(app)
    with Scheduler(app, name="beat-1", health=probe.address):
        told = probe.until_ready()
        assert (told["state"], told["broker"], told["workerId"]) == ("ok", "connected", "beat-1")
        until(lambda: probe.get("/readyz").json["fired"] == 1)
        assert probe.is_live()
        assert probe.value("stem_schedule_fired_total") == 1
        assert (probe.value("stem_schedule_drift_seconds") or 0) > 1, "it was overdue when the scheduler started"
        assert probe.value("stem_schedule_leader") == 1
        assert probe.get("/scale").json["value"] == 1
        with pytest.raises(ConfigError, match="Health cannot listen"), Scheduler(app, health=probe.address):
            pass
    with pytest.raises(OSError, match="refused"):
        probe.get("/livez")
