"""Tasks with arguments that nobody may be shown, and that say them wherever a task can."""

import enum
import logging
import sys
from hashlib import sha256
from typing import Any

from stem import Stem, TaskContext

app = Stem()
log = logging.getLogger("paying")


class Coin(enum.Enum):
    GOLD = "gold"


def digest(card: str) -> str:
    return sha256(card.encode()).hexdigest()


@app.schedule("0 4 * * *", id="nightly", args={"card": "5500005555555559", "payment": {"cvv": 997}})
@app.task(name="pay", sensitive=["card", "payment.cvv"], max_retries=0)
def pay(card: str, payment: dict[str, Any], fails: bool = False) -> str:
    print(f"charging {card} with {payment['cvv']}")
    print(f"to stderr {card}", file=sys.stderr)
    log.warning("logged %s", payment)
    if fails:
        raise ValueError(f"card {card!r} refused, cvv {payment['cvv']}")
    return digest(card)


@app.task(name="pay-inline", sensitive=["card"], isolate=False)
def pay_inline(card: str) -> str:
    print(f"inline {card}")
    return digest(card)


@app.task(name="pay-async", sensitive=["card"])
async def pay_async(card: str) -> str:
    print(f"async {card}")
    return digest(card)


@app.task(name="hold", sensitive=["card"])
def hold(card: str, ctx: TaskContext) -> None:
    ctx.sleep(3600)


@app.task(name="change", sensitive=["coin"])
def change(coin: Coin) -> None: ...
