"""Templates and how values are written in them. Everything is escaped; characters that cannot be seen are spelled out."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request

from stem.core.settings.kinds import span
from stem.core.text.escaping import plain
from stem.dashboard.navigation import NAVIGATION

if TYPE_CHECKING:
    from stem.dashboard.access.users import User

HERE = Path(__file__).parent
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Templates:
    def __init__(self, *, has_login_form: bool, store_name: str) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_visible,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "age": age,
            "bytes": as_bytes,
            "exact": exact,
            "count": count,
            "json": as_json,
            "details": details,
            "moment": moment,
            "seconds": seconds,
            "share": share,
            "iso": lambda at: at.astimezone(UTC).isoformat(),
            "sparkline": sparkline,
        }
        self._common = {"navigation": NAVIGATION, "has_login_form": has_login_form, "store_name": store_name}

    def render(self, template: str, request: Request, user: "User | None", **context: Any) -> str:
        root = request.scope.get("root_path", "")

        def url(*parts: str, **query: Any) -> str:
            """A path of the dashboard. The first part is ours; the others are data, and quoted."""
            path = root + parts[0] + "/".join(quote(part, safe="") for part in parts[1:])
            given = {name: value for name, value in query.items() if value not in (None, "")}
            return f"{path}?{urlencode(given)}" if given else path

        here = request.url.path.removeprefix(root) or "/"
        query = f"?{request.url.query}" if request.url.query else ""
        return self._environment.get_template(template).render(
            url=url, user=user, here=here, now=datetime.now(UTC), address=root + here + query, **self._common, **context
        )


def age(at: datetime | None, now: datetime) -> str:
    """`5 s ago`, `in 2 m`; empty for none."""
    if at is None:
        return ""
    passed = (now - at).total_seconds()
    return f"{short(abs(passed))} ago" if passed >= 0 else f"in {short(-passed)}"


def short(passed: float) -> str:
    """One unit: `5 s`, `12 m`, `3 h`, `4 d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if passed >= 2 * size:
            return f"{int(passed // size)} {unit}"
    return f"{int(passed)} s"


def moment(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def seconds(value: float | None) -> str:
    """`1.2 ms`, `350 ms`, `4.1 s`, `2m 5s`."""
    if value is None:
        return "–"
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    if value < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} s" if value < 60 else span(float(round(value)))


def count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def share(value: float | None) -> str:
    if value is None:
        return "–"
    if 0 < value < 0.001:
        return "<0.1%"
    return f"{value:.1%}" if 0 < value < 0.1 else f"{value:.0%}"


def as_bytes(value: float) -> str:
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit in ("B", "KiB") else f"{value:.1f} {unit}"
        value /= 1024
    return ""


def details(data: Mapping[str, Any]) -> str:
    """What an event says besides: an error as people read it, anything else as it is."""
    error = data.get("error")
    if isinstance(error, dict) and error.get("type"):
        return f"{error['type']}: {error.get('message', '')}"
    return as_json(data) if data else ""


def as_json(value: Any) -> str:
    """For an attribute that a script reads; escaped like all text."""
    return json.dumps(value, default=str)


def exact(value: Any) -> Markup:
    """For a value that a form sends back: escaped, and otherwise as it is."""
    return escape(str(value))


def sparkline(values: Sequence[float], width: int = 96, height: int = 20) -> Markup:
    """A line without axes. Only numbers are in it."""
    if not values or max(values) <= 0:
        return Markup('<svg class="spark" viewBox="0 0 {} {}" aria-hidden="true"><path d="M0 {}H{}"/></svg>').format(
            width, height, height - 1, width
        )
    most = max(values)
    step = width / max(1, len(values) - 1)
    points = [f"{i * step:.1f} {height - 1 - value / most * (height - 3):.1f}" for i, value in enumerate(values)]
    line = "M" + "L".join(points)
    area = f"{line}L{width} {height}L0 {height}Z"
    return Markup(
        '<svg class="spark" viewBox="0 0 {} {}" aria-hidden="true"><path class="area" d="{}"/><path d="{}"/></svg>'
    ).format(width, height, area, line)


def _visible(value: Any) -> Any:
    """Text of tasks may hold marks that reverse what is written, or escape sequences: show them instead."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return plain(value, but="\n\t")
    return "" if value is None else value
