"""`self.request`: what a running task knows of its call."""

from collections.abc import Mapping
from typing import Any

from stem.client.run.context import JOIN_ID, TaskContext
from stem.compat.celery.app.conf import CeleryConf
from stem.compat.celery.app.options import META, urgency
from stem.compat.celery.codec import from_wire


class CallRequest:
    """The call that runs. Headers of the call are attributes as well."""

    id: str | None = None
    task: str | None = None
    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    retries = 0
    called_directly = True
    is_eager = False
    eta: str | None = None
    expires: str | None = None
    headers: dict[str, Any] | None = None
    delivery_info: dict[str, Any] | None = None
    hostname: str | None = None
    parent_id: str | None = None
    root_id: str | None = None
    correlation_id: str | None = None
    group: str | None = None
    timelimit: tuple[float | None, float | None] | None = None
    ignore_result = False
    utc = True
    origin: str | None = None
    reply_to: str | None = None
    callbacks: list[Any] | None = None
    errbacks: list[Any] | None = None
    chain: list[Any] | None = None
    chord: Any = None
    properties: Mapping[str, Any] | None = None
    logfile: str | None = None
    loglevel: int | None = None
    context: TaskContext | None = None  # Stem's own, which can do more

    def __init__(self, **facts: Any) -> None:
        vars(self).update(facts)

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)

    def __repr__(self) -> str:
        return f"<Context: {vars(self)!r}>"


def request_of(
    context: TaskContext, conf: CeleryConf, args: list[Any], kwargs: dict[str, Any], *, is_eager: bool
) -> CallRequest:
    """The request of a task that a worker runs."""
    envelope = context._envelope
    headers = _headers(context)
    return CallRequest(
        **{name: value for name, value in headers.items() if name.isidentifier() and not hasattr(CallRequest, name)},
        context=context,
        id=context.id,
        task=context.name,
        args=args,
        kwargs=kwargs,
        retries=context.attempt,
        called_directly=False,
        is_eager=is_eager,
        eta=_iso(envelope.not_before),
        expires=_iso(envelope.expires_at),
        headers=headers or None,
        delivery_info={
            "exchange": "",
            "routing_key": context.queue,
            "priority": urgency(conf, envelope.priority),  # there and back are the same
            "redelivered": bool(context.delivery.deaths),
            "is_eager": is_eager,
        },
        hostname=context.worker,
        parent_id=context.parent_id,
        root_id=context.root_id,
        correlation_id=context.id,
        group=context.meta.get(JOIN_ID),
        timelimit=(envelope.hard_limit, envelope.soft_limit),
    )


def _headers(context: TaskContext) -> dict[str, Any]:
    noted = context.meta.get(META)
    more = noted.get("headers") if isinstance(noted, dict) else None
    texts = {name: text for name, text in context.headers.items() if name != "traceparent"}
    return {**texts, **(from_wire(more) if isinstance(more, dict) else {})}


def _iso(moment: Any) -> str | None:
    return None if moment is None else moment.isoformat()
