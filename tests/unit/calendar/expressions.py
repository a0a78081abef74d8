"""Random cron expressions."""

import random
from collections.abc import Callable

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]

Dice = random.Random


def number(dice: Dice, least: int, most: int, names: list[str]) -> str:
    value = dice.randint(least, most)
    if names and dice.random() < 0.4:
        return dice.choice([str.lower, str.upper, str.title])(names[value - least])
    return str(value)


def term(dice: Dice, least: int, most: int, names: list[str]) -> str:
    first, last = sorted(dice.sample(range(least, most + 1), 2))
    forms: list[Callable[[], str]] = [
        lambda: number(dice, least, most, names),
        lambda: f"{first}-{last}",
        lambda: f"{first}-{last}/{dice.randint(1, last - first)}",
        lambda: f"*/{dice.randint(1, max(2, (most - least) // 2))}",
    ]
    return dice.choice(forms)()


def field(dice: Dice, least: int, most: int, names: list[str], *, star: float) -> str:
    if dice.random() < star:
        return "*"
    return ",".join(term(dice, least, most, names) for _ in range(dice.choice([1, 1, 1, 2, 3])))


def days(dice: Dice) -> tuple[str, str]:
    """Day of the month and weekday. With `#` croniter forgets the day of the month, so the two do not meet here."""
    if dice.random() < 0.08:
        return "*", f"{dice.choice(WEEKDAYS)}#{dice.randint(1, 4)}"
    weekday = field(dice, 0, 6, WEEKDAYS, star=0.5)
    if dice.random() < 0.08:
        weekday = dice.choice(["fri-mon", "sat-sun", "7", "5-7"])
    return "L" if dice.random() < 0.06 else field(dice, 1, 31, [], star=0.5), weekday


def expression(dice: Dice) -> str:
    day, weekday = days(dice)
    time = [field(dice, 0, 59, [], star=0.2), field(dice, 0, 23, [], star=0.3)]
    fields = [*time, day, field(dice, 1, 12, MONTHS, star=0.6), weekday]
    if dice.random() < 0.25:
        fields.insert(0, field(dice, 0, 59, [], star=0.1))
    return " ".join(fields)
