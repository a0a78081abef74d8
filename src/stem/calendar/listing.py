"""Write lists of numbers and names as people say them."""

from collections.abc import Callable, Sequence
from itertools import pairwise

_LEAST_RUN = 3  # numbers in a row that become `1 to 3`
_LEAST_SERIES = 4  # numbers at equal distances that become `every 2nd from 1 to 31`


def joined(texts: Sequence[str], word: str = "and") -> str:
    """Return `a, b and c`."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} {word} {texts[-1]}"


def counted(unit: str, numbers: Sequence[int]) -> str:
    """Return `minute 5`, `minutes 1, 2 and 10 to 20` or `every 7th minute from 0 to 56`."""
    return series(unit, numbers) or f"{unit}{'' if len(numbers) == 1 else 's'} {listed(numbers)}"


def series(unit: str, numbers: Sequence[int], name: Callable[[int], str] = str) -> str:
    """Return `every 7th minute from 0 to 56` if the sorted numbers are such a series; otherwise nothing."""
    step = step_of(numbers)
    if len(numbers) < _LEAST_SERIES or step <= 1:
        return ""
    return f"every {ordinal(step)} {unit} from {name(numbers[0])} to {name(numbers[-1])}"


def listed(numbers: Sequence[int], name: Callable[[int], str] = str) -> str:
    """Return sorted numbers as `1, 2 and 10 to 20`."""
    texts: list[str] = []
    for run in _runs(numbers):
        whole = len(run) >= _LEAST_RUN
        texts += [f"{name(run[0])} to {name(run[-1])}"] if whole else [name(number) for number in run]
    return joined(texts)


def step_of(numbers: Sequence[int]) -> int:
    """Return the distance between neighbours if it is always the same; otherwise 0."""
    distances = {later - earlier for earlier, later in pairwise(numbers)}
    return distances.pop() if len(distances) == 1 else 0


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `4th`."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs
