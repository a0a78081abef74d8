"""Complete names and ids from the store while somebody types, if it answers quickly."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from stem.cli.support.stores import Session
    from stem.contracts.store import Store

ANSWER_SECONDS = 0.3
MOST_IDS = 50
MOST_NAMES = 200

Found = Iterable[tuple[str, str]]  # a value, and a remark for shells that show one


def task_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    return _completed(ctx, incomplete, _task_names)


def queues(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    return _completed(ctx, incomplete, _queues)


def workers(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    return _completed(ctx, incomplete, _workers)


def task_ids(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    return _completed(ctx, incomplete, _task_ids)


def letter_ids(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    return _completed(ctx, incomplete, _letter_ids)


def canvas_ids(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    return _completed(ctx, incomplete, _canvas_ids)


def schedule_ids(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    return _completed(ctx, incomplete, _schedule_ids)


def _completed(ctx: click.Context, incomplete: str, ask: "Callable[[Store], Found]") -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    from stem.core.text.escaping import plain

    found = _answered(ctx, ask)
    # A value that has to be escaped could not be typed as it is shown.
    return [
        CompletionItem(value, help=plain(remark) or None)
        for value, remark in found.items()
        if value.startswith(incomplete) and plain(value) == value
    ]


def _answered(ctx: click.Context, ask: "Callable[[Store], Found]") -> dict[str, str]:
    """Ask the store that flags, environment or file name. An app is not imported: that takes too long."""
    found: dict[str, str] = {}
    session = _session(ctx)

    def work() -> None:
        with suppress(Exception), session.store() as store:  # the command itself will say what is wrong
            found.update(ask(store))

    with suppress(Exception):
        from stem.client.stores import preload

        preload(session.settings().broker_url)  # first: the time is for the store, and not for imports
    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(ANSWER_SECONDS)
    return {} if thread.is_alive() else found


def _session(ctx: click.Context) -> "Session":
    from stem.cli.support.stores import Session

    broker_url, results_url, namespace = (ctx.params.get(name) for name in ("broker_url", "results_url", "namespace"))
    return Session(broker_url, results_url, namespace, as_json=False)


def _task_names(store: "Store") -> Found:
    from stem.core.record import TaskFilter

    served = [(str(name), "") for pulse in store.heartbeats.all() for name in pulse.heartbeat.extras.get("tasks") or {}]
    recent = store.results.page(TaskFilter(), limit=MOST_NAMES).items
    return sorted({*served, *((record.name, "") for record in recent if not record.name.startswith("stem."))})


def _queues(store: "Store") -> Found:
    served = {queue for pulse in store.heartbeats.all() for queue in pulse.heartbeat.queues}
    depths = store.broker.depth()
    return [(name, f"{depths[name].ready} ready" if name in depths else "") for name in sorted({*served, *depths})]


def _workers(store: "Store") -> Found:
    return [(pulse.heartbeat.worker_id, pulse.heartbeat.host) for pulse in store.heartbeats.all()]


def _task_ids(store: "Store") -> Found:
    from stem.core.record import TaskFilter

    return [(each.id, f"{each.name} {each.state}") for each in store.results.page(TaskFilter(), limit=MOST_IDS).items]


def _letter_ids(store: "Store") -> Found:
    from stem.core.delivery import DeadFilter

    return [
        (each.id, f"{each.name} {each.reason}") for each in store.deadletters.page(DeadFilter(), limit=MOST_IDS).items
    ]


def _canvas_ids(store: "Store") -> Found:
    from stem.core.prerequisites import CANVAS
    from stem.core.record import TaskFilter

    return [(each.id, str(each.state)) for each in store.results.page(TaskFilter(name=CANVAS), limit=MOST_IDS).items]


def _schedule_ids(store: "Store") -> Found:
    return [(each.entry.id, each.entry.task) for each in store.schedules.all()]
