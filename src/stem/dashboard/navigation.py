"""The pages in the navigation, in order. To add one: its line here, and its routes in `application`."""

from typing import NamedTuple


class NavigationItem(NamedTuple):
    path: str
    title: str
    key: str  # with g before it, on the keyboard


NAVIGATION = (
    NavigationItem("/", "Overview", "o"),
    NavigationItem("/tasks", "Tasks", "t"),
    NavigationItem("/canvases", "Canvases", "c"),
    NavigationItem("/queues", "Queues", "q"),
    NavigationItem("/workers", "Workers", "w"),
    NavigationItem("/dead-letters", "Dead letters", "d"),
    NavigationItem("/schedules", "Schedules", "s"),
    NavigationItem("/events", "Events", "e"),
    NavigationItem("/spark", "Spark", "p"),
    NavigationItem("/audit", "Audit", "a"),
)
