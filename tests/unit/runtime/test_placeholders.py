"""Placeholders in names of files, as service templates write them."""

import socket

import pytest

from stem.core.errors import UsageError
from stem.runtime.placeholders import Node, nodes

ALPHA = Node("alpha", 2, "web1.example.org")


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("/run/stem/%n.pid", "/run/stem/alpha.pid"),
        ("%n@%h", "alpha@web1.example.org"),
        ("%d/%n", "example.org/alpha"),
        ("%I-of-many", "2-of-many"),
        ("100%% %%n", "100% %n"),
        ("plain", "plain"),
    ],
)
def test_each_placeholder_has_its_value(template: str, name: str) -> None:
    assert ALPHA.expand(template) == name


def test_a_host_without_a_domain_has_an_empty_one() -> None:
    assert Node("alpha", 1, "web1").expand("%h[%d]") == "web1[]"


@pytest.mark.parametrize("template", ["%x.pid", "%i", "%", "alpha%", "%N"])
def test_any_other_is_refused(template: str) -> None:
    with pytest.raises(UsageError, match="%% for a percent sign"):
        ALPHA.expand(template)


def test_nodes_are_counted_from_one_in_the_order_in_which_they_are_named() -> None:
    assert nodes(("b", "a")) == [Node("b", 1, socket.gethostname()), Node("a", 2, socket.gethostname())]


@pytest.mark.parametrize("name", ["", "..", "../up", "a/b", "-a", "a b", "a%n", "ä", "a\n", "x" * 65])
def test_a_node_cannot_lead_elsewhere(name: str) -> None:
    with pytest.raises(UsageError, match="is not 1 to 64"):
        nodes((name,))


def test_a_node_is_named_once() -> None:
    with pytest.raises(UsageError, match="'a' is named twice"):
        nodes(("a", "b", "a"))
