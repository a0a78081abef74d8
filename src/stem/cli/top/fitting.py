"""Fit a table of `stem top` into the width of the screen."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

_SHRINKING = ("task", "queue", "worker", "queues", "remark", "error", "progress or error")
_SHORT_ID = 13
_LEAST = 6
_MOST = 60


def fitted(titles: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> tuple[list[int], list[list[str]]]:
    """Return the widths of the columns, and the titles and the rows cut to them.

    Ids lose their beginning first, which is the time and the same for many; then the widest column that may shrink does.
    """
    columns = zip(titles, *rows, strict=True)
    widths = [min(_MOST, max(map(cell_len, column))) for column in columns]
    excess = sum(widths) - room
    for index, title in enumerate(titles):
        if title == "id" and excess > 0:
            cut = max(0, min(excess, widths[index] - _SHORT_ID))
            widths[index] -= cut
            excess -= cut
    shrinking = [index for index, title in enumerate(titles) if title in _SHRINKING]
    for _ in range(excess):
        widest = max(shrinking, key=lambda index: widths[index])
        if widths[widest] <= _LEAST:
            break
        widths[widest] -= 1
    lines = [[_cut(*each) for each in zip(line, widths, titles, strict=True)] for line in (titles, *rows)]
    return widths, lines


def _cut(text: str, width: int, title: str) -> str:
    if cell_len(text) <= width:
        return text
    return f"…{text[1 - width :]}" if title == "id" else f"{set_cell_size(text, width - 1)}…"
