"""Tasks of random canvases, and the script that submits one and is killed right after."""

import json
import os
import random
import signal
import sys
import time
from typing import Any

from stem import Stem, chain, group
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


def random_canvas(dice: random.Random, depth: int = 5) -> Canvas[Any]:
    """Chains, groups and chords, nested up to `depth`, up to 50 wide at the top."""
    if depth == 0 or dice.random() < 0.25:
        one: Canvas[Any] = leaf.si(dice.randrange(10), seconds=dice.choice((0.0, 0.02, 0.1)))
        return one
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
