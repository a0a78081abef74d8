"""An agent that handles customers' tickets in durable steps, and asks a human before it spends money."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from stem import Stem, TaskContext

app = Stem()

NEEDS_APPROVAL = {"refund"}


@dataclass(frozen=True)
class Ticket:
    customer: str
    order: str


@dataclass(frozen=True)
class Outcome:
    reply: str
    turns: int


@app.task(name="agent.handle")
def handle(ctx: TaskContext, ticket: Ticket) -> Outcome:
    """Each thought and each use of a tool is recorded before the next begins. After a crash the loop runs through what is
    recorded without repeating it, and goes on where it was cut off."""
    seen: list[Any] = []
    for turn in count(1):
        action = ctx.step(f"think {turn}", think, ticket.customer, ticket.order, seen)
        tool, arguments = action["tool"], action["arguments"]
        if tool == "reply":
            return Outcome(arguments["text"], turn)
        if tool in NEEDS_APPROVAL and not is_approved(ctx, tool, arguments):
            seen.append({"refused": tool})
            continue
        seen.append(ctx.step(f"{tool} {turn}", TOOLS[tool], **arguments))
    raise AssertionError


def is_approved(ctx: TaskContext, tool: str, arguments: dict[str, Any]) -> bool:
    """Days may pass here: the task holds no worker while it waits."""
    ctx.progress(message=f"may I {tool} {arguments}?")
    decision = ctx.wait_event("decision", timeout="3d")
    return bool(decision["approved"])


def think(customer: str, order: str, seen: list[Any]) -> dict[str, Any]:
    """Stands for the call of a language model, which is slow, costs money, and should not be repeated."""
    note("think")
    match seen:
        case []:
            return {"tool": "look_up", "arguments": {"order": order}}
        case [{"price": price}]:
            return {"tool": "refund", "arguments": {"order": order, "amount": price}}
        case [_, {"refunded": amount}]:
            return {"tool": "reply", "arguments": {"text": f"{customer}, you get {amount} back."}}
        case _:
            return {"tool": "reply", "arguments": {"text": f"{customer}, we cannot refund {order}."}}


def look_up(order: str) -> dict[str, Any]:
    note("look_up")
    time.sleep(1)  # long enough to be cut off
    return {"order": order, "price": 40}


def refund(order: str, amount: int) -> dict[str, Any]:
    """A crash after the call and before its record would repeat it, so a real one passes the order as idempotency key."""
    note("refund")
    return {"order": order, "refunded": amount}


TOOLS: dict[str, Callable[..., dict[str, Any]]] = {"look_up": look_up, "refund": refund}


def note(what: str) -> None:
    """Keeps a list of the calls, so that run.py can count them."""
    with open(os.environ["AGENT_LEDGER"], "a") as ledger:
        ledger.write(f"{what}\n")
