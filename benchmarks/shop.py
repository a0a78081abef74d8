"""The tasks that the worker's benchmark runs."""

import time

from stem import Stem

app = Stem()


@app.task(name="noop")
def noop(n: int) -> int:
    return n


@app.task(name="stamp")
def stamp() -> float:
    """When it began, by the machine's clock."""
    return time.time()


@app.task(name="crunch")
def crunch(rounds: int) -> int:
    return work(rounds)


def work(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total = (total * 31 + number) % 1_000_003
    return total


@app.task(name="count")
def count(values: list[int]) -> int:
    return len(values)


@app.task(name="say")
def say(n: int) -> int:
    print("task", n)
    return n
