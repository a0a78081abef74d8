"""The dashboard and the alerts in `deploy/`: each query names metrics and labels that a worker or a scheduler exposes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from stem.scheduler.process import Scheduler
from support.stores.outages import SqliteLocked
from support.until import until
from support.workers.probes import Probe
from support.workers.processes import WorkerProcess, desk

DEPLOY = Path(__file__).parents[2] / "deploy"
APP = """
import time
from stem import Stem
app = Stem(retry=0.01)

@app.task(name="good")
def good() -> None: ...

@app.task(name="bad", max_retries=1)
def bad() -> None:
    raise ValueError("as asked")

@app.task(name="long")
def long() -> None:
    while True:
        time.sleep(0.01)

@app.task(name="limited", rate_limit="1/h")
def limited() -> None: ...
"""
SELECTOR = re.compile(r"\b((?:stem|process)_[a-z_]+)\b(?:\{([^}]*)\})?")
MATCHER = re.compile(r'([a-z_]+)\s*(=~|=)\s*"([^"]*)"')
GROUPING = re.compile(r"(?:by|on) \(([^)]*)\)")
LABEL_VALUES = re.compile(r"label_values\((.*), ([a-z_]+)\)")
UNASKED = {"stem_worker_revoked", "stem_worker_tasks_total", "stem_worker_commands_total", "stem_schedule_fired_total"}
FROM_SCRAPE = {"job", "instance"}

Samples = dict[str, list[dict[str, str]]]  # the labels of each sample, by name


def queries() -> Iterator[tuple[str, str]]:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    for panel in dashboard["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["label"], variable["definition"]
    for group in yaml.safe_load((DEPLOY / "alert-rules.yaml").read_text())["groups"]:
        yield from ((rule["alert"], rule["expr"]) for rule in group["rules"])


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """What a worker that has seen everything, and a scheduler, say on /metrics."""
    directory, probe, beat = tmp_path_factory.mktemp("deploy"), Probe(), Probe()
    (directory / "shop.py").write_text(APP)
    path, outage = f"{directory / 'shop.py'}:app", SqliteLocked(directory)
    options = {"health": probe.address, "heartbeat_seconds": 0.5}
    worker = WorkerProcess(
        outage.url, "deploy", path, directory / "log", options, variables={"STEM_STORE_TIMEOUT": "1"}
    )
    try:
        with desk(outage.url, "deploy") as client, Scheduler(client.app, health=beat.address):
            probe.until_ready()
            long = client.send("long")
            until(lambda: probe.value("stem_worker_inflight"))
            client.app.handle(long).revoke(terminate=True)
            for name in ("good", "bad", "limited", "limited"):
                client.send(name)
            for name in ("failed", "retried", "succeeded", "throttled", "revoked"):
                until(lambda name=name: probe.value(f"stem_tasks_{name}_total"), seconds=30)  # type: ignore[misc]
            until(lambda: beat.state()[0] == 200)
            found = beat.samples()
        outage.begin()
        until(lambda: probe.value("stem_store_call_errors_total"), seconds=20)
        found |= probe.samples()
    finally:
        outage.close()
        worker.clean_up()
    return {name: [dict(labels) for labels in by_labels] for name, by_labels in found.items()}


@pytest.mark.parametrize(("title", "query"), list(queries()))
def test_a_query_finds_what_it_asks_for(exposed: Samples, title: str, query: str) -> None:
    selectors = SELECTOR.findall(LABEL_VALUES.sub(r"\1", GROUPING.sub("", query)))
    assert selectors, f"{title} asks for nothing"
    for name, matchers in selectors:
        wanted = [each for each in MATCHER.findall(matchers) if each[0] not in FROM_SCRAPE]
        assert any(_is_matched(labels, wanted) for labels in exposed.get(name, [])), f"{title}: there is no {name}"
    known = {label for name, _ in selectors for labels in exposed[name] for label in labels} | FROM_SCRAPE
    grouped = [label.strip() for labels in GROUPING.findall(query) for label in labels.split(",")]
    grouped += [found[2] for found in LABEL_VALUES.finditer(query)]
    assert set(grouped) <= known, f"{title} groups by what is no label"


def test_the_files_ask_for_most_of_what_there_is(exposed: Samples) -> None:
    asked = " ".join(query for _, query in queries())
    names = {re.sub(r"_(count|sum|bucket)$", "", name) for name in exposed if name.startswith("stem_")}
    assert {name for name in names if name not in asked} <= UNASKED


def _is_matched(labels: dict[str, str], wanted: list[tuple[str, str, str]]) -> bool:
    return all(
        name in labels
        and (text.startswith("$") or re.fullmatch(text if how == "=~" else re.escape(text), labels[name]))
        for name, how, text in wanted
    )
