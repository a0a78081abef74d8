"""`stem health`: can the stores be reached, and what do they say of themselves?"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from stem.cli import show
from stem.cli.session import Session, in_session

if TYPE_CHECKING:
    from stem.contracts.store import Store
    from stem.core.config import Settings


@click.command()
@in_session
def health(session: Session) -> None:
    """Say how the stores, workers and queues are.

    Exit code 0 if the stores can be reached, 70 and the reason if not.

    \b
    Example: stem health --json
    """
    report = _report(session)
    if session.as_json:
        show.json(report)
        return
    _print_store("broker", report["broker"])
    if report["results"] is report["broker"]:
        click.echo("results    with the broker")
    else:
        _print_store("results", report["results"])
    click.echo(f"namespace  {report['namespace']}\n")
    rows = [
        (w["workerId"], w["host"], w["pid"], ",".join(w["queues"]), w["inFlight"], w["concurrency"], w["ageSeconds"])
        for w in report["workers"]
    ]
    show.table(("worker", "host", "pid", "queues", "running", "of", "heard s ago"), rows, empty="No worker is alive.")
    click.echo()
    show.table(
        ("queue", "ready", "delayed", "running", "dead"),
        [tuple(queue.values()) for queue in report["queues"]],
        empty="No queue holds a task.",
    )


def _report(session: Session) -> dict[str, Any]:
    """The two stores are opened one by one, so that each speaks for itself."""
    from stem.backends import placed
    from stem.cli import shapes

    settings = session.settings()
    with _opened(settings.broker_url, settings) as store:
        broker = shapes.store(store)
        report = {
            "status": "ok",
            "namespace": settings.namespace,
            "broker": broker,
            "results": broker,
            "workers": [shapes.worker(pulse) for pulse in store.heartbeats.all()],
            "queues": [shapes.queue(name, depth) for name, depth in sorted(store.broker.depth().items())],
        }
    if placed(settings).results_are_apart and settings.results_url is not None:
        with _opened(settings.results_url, settings) as store:
            report["results"] = shapes.store(store)
    return report


@contextmanager
def _opened(url: str, settings: "Settings") -> "Iterator[Store]":
    from stem.backends import connect

    store = connect(url, settings)
    try:
        yield store
    finally:
        store.upkeep.close()


def _print_store(role: str, facts: dict[str, Any]) -> None:
    latency = f"{facts['latencySeconds'] * 1000:.1f} ms"
    click.echo(show.plain(f"{role:<9}  {facts['url']}  {facts['server']}  {latency}"))
    for warning in facts["warnings"]:
        click.echo(show.plain(f"{'warning':<9}  {warning}"))
