"""One HTML file per page: style and plots are inside, and nothing is loaded from the network."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files


def page(title: str, heading: str, body: str) -> str:
    """`heading` and `body` are HTML, the title is text."""
    style = files("stem.pipeline.html").joinpath("page.css").read_text()
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head><body><main>'
        f"<header><h1>{escape(title)}</h1>{heading}</header>{body}</main></body></html>\n"
    )


def section(title: str, inside: str) -> str:
    return f'<section class="card"><h2>{title}</h2>{inside}</section>'


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, chosen: int | None = None) -> str:
    """Cells are HTML. `chosen` is the row to highlight."""
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join(
        f"<tr{' class=chosen' if place == chosen else ''}>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"
        for place, row in enumerate(rows)
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
