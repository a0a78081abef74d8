"""`stem health`: check the stores, and show what keeps tasks from running."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from stem.cli.support import printing, times
from stem.cli.support.stores import Session, check_exists, in_session
from stem.control import queue_states

if TYPE_CHECKING:
    from stem.contracts.store import Store
    from stem.core.settings.app import Settings


@click.command()
@in_session
def health(session: Session) -> None:
    """Check stores, signing and TLS, and list workers and queues.

    Exit code 0 if the stores can be reached and keys and certificates can be used; 70, 64 or 1 and the reason if not.

    \b
    Example: stem health --json
    """
    settings = check_exists(session.settings())
    with _opened(settings.broker_url, settings) as store, session.revokes(store) as revokes:
        states = queue_states.queue_states(store, revokes)
        report = _report(settings, store, states)
    if session.as_json:
        printing.json(report)
        return
    _print_store("broker", report["broker"])
    _print_place("results", report["results"], report["broker"])
    _print_place("revokes", report["revokes"], report["broker"])
    click.echo(f"signing    {report['signing']}\ntls        {report['tls']}\nnamespace  {report['namespace']}\n")
    rows = [
        (w["workerId"], w["host"], w["pid"], ",".join(w["queues"]), f"{w['inFlight']}/{w['concurrency']}", _ago(w))
        for w in report["workers"]
    ]
    columns = ("worker", "host", "pid", "queues", "running", "last heard")
    printing.table(columns, rows, empty="No worker is running.", shrink=("host", "queues"))
    click.echo()
    empty = "No queue holds a task."
    printing.table(queue_states.COLUMNS, map(queue_states.row, states), empty=empty, shrink=queue_states.SHRINK)


def _report(settings: "Settings", store: "Store", states: list[queue_states.QueueState]) -> dict[str, Any]:
    """Open the stores one by one, so that each is checked by itself."""
    from stem.cli.support import json_forms, security_checks
    from stem.client.stores import connect_revokes, with_absolute_paths
    from stem.core.settings.app import masked

    there = with_absolute_paths(settings)
    broker = json_forms.store(store)
    report = {
        "status": "ok",
        "namespace": settings.namespace,
        "broker": broker,
        "results": broker,
        "revokes": broker if there.revokes_place == there.broker_url else {"url": masked(there.revokes_place)},
        "signing": security_checks.signing(settings),
        "tls": security_checks.tls(settings),
        "workers": [json_forms.worker(pulse) for pulse in store.heartbeats.all()],
        "queues": [state.shape() for state in states],
    }
    if there.results_are_apart and there.results_url is not None:
        with _opened(there.results_url, settings) as results:
            report["results"] = json_forms.store(results)
    if there.revokes_place != there.broker_url:
        connect_revokes(there).close()
    return report


def _ago(worker: dict[str, Any]) -> str:
    return f"{times.span(worker['ageSeconds'])} ago"


@contextmanager
def _opened(url: str, settings: "Settings") -> "Iterator[Store]":
    from stem.client.stores import connect

    store = connect(url, settings)
    try:
        yield store
    finally:
        store.upkeep.close()


def _print_place(role: str, facts: dict[str, Any], broker: dict[str, Any]) -> None:
    if facts is broker:
        click.echo(f"{role:<9}  with the broker")
    elif "server" in facts:
        _print_store(role, facts)
    else:
        click.echo(printing.plain(f"{role:<9}  {facts['url']}"))


def _print_store(role: str, facts: dict[str, Any]) -> None:
    latency = f"{facts['latencySeconds'] * 1000:.1f} ms"
    click.echo(printing.plain(f"{role:<9}  {facts['url']}  {facts['server']}  {latency}"))
    for warning in facts["warnings"]:
        click.echo(printing.plain(f"{'warning':<9}  {warning}"))
