"""Read one field of a cron expression. Nothing is expanded before its bounds are checked."""

import re

import msgspec

from stem.core.errors import InvalidSchedule

_NUMBER = re.compile(r"[0-9]{1,3}")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


class FieldKind(msgspec.Struct, frozen=True):
    """What a field may hold: numbers from `least` to `most`, and names for them."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    can_wrap: bool = False
    example: str = "5 or 0-30/10"

    @property
    def all(self) -> tuple[int, ...]:
        return tuple(range(self.least, self.most + 1))


SECOND = FieldKind("second", 0, 59)
MINUTE = FieldKind("minute", 0, 59)
HOUR = FieldKind("hour", 0, 23, can_wrap=True, example="9 or 9-17")
DAY = FieldKind("day of the month", 1, 31, example="1 or 1-15 or L")
MONTH = FieldKind("month", 1, 12, names=_MONTHS, can_wrap=True, example="1 or jan-mar")
WEEKDAY = FieldKind("weekday", 0, 6, names=_WEEKDAYS, can_wrap=True, example="mon-fri or 5L or mon#1")
KINDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)


class CronField(msgspec.Struct, frozen=True):
    """A field as it was meant. `numbers` are sorted, Sunday is 0; `specials` are L, LW, 5L (last Friday), 1#2 (second Monday)."""

    kind: FieldKind
    text: str
    begins_with_star: bool
    numbers: tuple[int, ...]
    specials: tuple[str, ...] = ()
    is_strict: bool = False  # of a weekday that begins with `&`: the day of the month must match as well

    @property
    def is_any(self) -> bool:
        return self.numbers == self.kind.all


def read_field(kind: FieldKind, text: str) -> CronField:
    """Read a field. Its `text` is in the words of cronsim, which knows no ranges that wrap. Raises InvalidSchedule."""
    if text == "?" and kind in (DAY, WEEKDAY):
        text = "*"
    if is_strict := kind is WEEKDAY and text.startswith("&"):
        text = text[1:]
    terms = [_read_term(kind, term) for term in text.split(",")]
    numbers = {number for found, _ in terms for number in found}
    specials = {special for _, special in terms if special}
    written = ",".join(special or ",".join(map(str, found)) for found, special in terms)
    begins_with_star = text.startswith("*")
    if begins_with_star:
        # cronsim decides by this star whether day of the month and weekday must both match.
        written = "*" if tuple(sorted(numbers)) == kind.all else _keep_star(text.lower(), written)
    return CronField(kind, written, begins_with_star, tuple(sorted(numbers)), tuple(sorted(specials)), is_strict)


def _keep_star(text: str, written: str) -> str:
    return f"{text.partition(',')[0]},{written}"


def _read_term(kind: FieldKind, term: str) -> tuple[tuple[int, ...], str]:
    """Return the numbers of one term of a list, or a special. Raises InvalidSchedule."""
    try:
        return _meaning(kind, term.lower())
    except ValueError as remedy:
        shown = term if len(term) <= 40 else f"{term[:40]}…"
        raise InvalidSchedule(f"{shown!r} is no {kind.name} of a cron expression: {remedy}.") from None


def _meaning(kind: FieldKind, term: str) -> tuple[tuple[int, ...], str]:
    """Raises ValueError with the remedy, as do all below."""
    special = _special(kind, term)
    if special:
        return (), special
    span, slash, step_text = term.partition("/")
    numbers = _numbers(kind, span, is_open=bool(slash))
    if not slash:
        return numbers, ""
    step = _number(kind, step_text)
    if not 1 <= step <= len(kind.all):
        raise ValueError(
            f"the step is 1 to {len(kind.all)}; for longer periods use an interval such as 'every 90 minutes'"
        )
    return numbers[::step], ""


def _special(kind: FieldKind, term: str) -> str:
    if kind is DAY and term in ("l", "lw"):
        return term.upper()
    if kind is not WEEKDAY:
        return ""
    if term.endswith("l") and term != "l":
        return f"{_value(kind, term[:-1]) % 7}L"
    day, mark, nth = term.partition("#")
    if not mark:
        return ""
    if nth not in ("1", "2", "3", "4", "5"):
        raise ValueError("after # comes 1 to 5: mon#1 is the first Monday")
    return f"{_value(kind, day) % 7}#{nth}"


def _numbers(kind: FieldKind, span: str, *, is_open: bool) -> tuple[int, ...]:
    """Return the numbers of `*`, `5` or `1-5`, in their order; with `is_open`, `5` goes on to the end."""
    if span == "*":
        return kind.all
    first, dash, last = span.partition("-")
    start = _value(kind, first)
    if dash:
        return _range(kind, start, _value(kind, last))
    start = start % 7 if kind is WEEKDAY else start
    return tuple(range(start, kind.most + 1)) if is_open else (start,)


def _range(kind: FieldKind, start: int, end: int) -> tuple[int, ...]:
    if kind is WEEKDAY:
        # Sunday is 0 and 7: 5-7 ends on it, 7-2 begins with it, and fri-mon goes over it.
        start, end = start % 7, end if end == 7 and start != 7 else end % 7
        return tuple(day % 7 for day in range(start, end + 1 if end >= start else end + 8))
    if end >= start:
        return tuple(range(start, end + 1))
    if not kind.can_wrap:
        raise ValueError(f"it ends before it begins; write {start}-{kind.most},{kind.least}-{end}")
    return (*range(start, kind.most + 1), *range(kind.least, end + 1))


def _value(kind: FieldKind, text: str) -> int:
    """Read a number or a name within the field's bounds."""
    if text in kind.names:
        return kind.names.index(text) + kind.least
    value = _number(kind, text)
    most = 7 if kind is WEEKDAY else kind.most
    if not kind.least <= value <= most:
        raise ValueError(f"it must be {kind.least} to {most}")
    return value


def _number(kind: FieldKind, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"write it like {kind.example}")
    return int(text)
