"""What operators did from the dashboard."""

from typing import Any

from stem.dashboard.handling import PageRequest
from stem.observe.event_log import operator_actions


def audit_page(ask: PageRequest) -> dict[str, Any]:
    return {"title": "Audit", "actions": operator_actions(ask.store)}
