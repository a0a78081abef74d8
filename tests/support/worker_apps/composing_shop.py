"""Tasks of random canvases, and the script that submits one and is killed right after."""

import json
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from stem import Stem, TaskContext, UsageError, chain, group
from stem.client.canvas.canvas import Canvas

app = Stem()


@app.task(name="leaf", max_retries=10)
def leaf(value: Any = None, *, seconds: float = 0.0) -> Any:
    time.sleep(seconds)
    return value


@app.task(name="size", max_retries=10)
def size(value: Any) -> int:
    """How many values there are, however nested."""
    return sum(map(size.definition.function, value)) if isinstance(value, list) else 1


@app.task(name="frail", max_retries=0)
def frail(ctx: TaskContext, value: int) -> int:
    """Fails when it runs for the first time; a replay mends it."""
    mark = Path(f"{os.environ['STEM_LEDGER']}.{ctx.id}")
    if not mark.exists():
        mark.touch()
        raise ValueError("not mended")
    return value


@app.task(name="sprout", max_retries=10)
def sprout(ctx: TaskContext, seed: int) -> int:
    """Adds members to its group, if it is in one."""
    with suppress(UsageError):
        ctx.spawn(leaf.si(1), chain(leaf.si(seed % 3), random_leaf(random.Random(seed))))
    return seed


@app.task(name="swap", max_retries=10)
def swap(ctx: TaskContext, seed: int) -> None:
    """Is replaced by another canvas, whose tasks may be replaced as well."""
    ctx.replace(random_canvas(random.Random(seed), depth=1))


def random_leaf(dice: random.Random) -> Canvas[Any]:
    match dice.randrange(25):
        case 0:
            return sprout.si(dice.randrange(1000))
        case 1:
            return swap.si(dice.randrange(1000))
        case 2:
            return frail.si(dice.randrange(10))
        case _:
            plain: Canvas[Any] = leaf.si(dice.randrange(10), seconds=dice.choice((0.0, 0.02, 0.1)))
            return plain


def random_canvas(dice: random.Random, depth: int = 5) -> Canvas[Any]:
    """Chains, groups and chords, nested up to `depth`, up to 50 wide at the top."""
    if depth == 0 or dice.random() < 0.25:
        return random_leaf(dice)
    width = dice.randint(1, 50 if depth == 5 else 4)
    parts = [random_canvas(dice, depth - 1) for _ in range(width)]
    kind = dice.choice(("chain", "group", "chord"))
    whole: Canvas[Any] = chain(*parts[:6]) if kind == "chain" else group(*parts)
    if kind == "chord":
        whole = whole | size.s()
    return whole


if __name__ == "__main__":
    seeds: list[int] = json.loads(sys.argv[1])
    for seed in seeds:
        print(random_canvas(random.Random(seed)).submit().id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
