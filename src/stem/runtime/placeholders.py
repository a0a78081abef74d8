"""Expand placeholders in the names of files that differ per node: `/var/log/stem/%n.log`."""

import re
import socket
from dataclasses import dataclass

from stem.core.errors import UsageError

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,63}", re.ASCII)
_PLACEHOLDER = re.compile(r"%(.?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Node:
    """One of several workers that are started together; `index` counts them from 1."""

    name: str
    index: int
    host: str

    def expand(self, template: str) -> str:
        """Replace `%n` by the node, `%h` by the host's full name, `%d` by its domain (empty if it has none), `%I` by the index
        and `%%` by a percent sign. Raises UsageError for any other."""
        values = {"n": self.name, "h": self.host, "d": self.host.partition(".")[2], "I": str(self.index), "%": "%"}

        def value(found: re.Match[str]) -> str:
            if found[1] not in values:
                raise UsageError(f"{template!r} has {found[0]!r}; use %n, %h, %d or %I, and %% for a percent sign.")
            return values[found[1]]

        return _PLACEHOLDER.sub(value, template)


def nodes(names: tuple[str, ...]) -> list[Node]:
    """Return the nodes in the order of their names. Raises UsageError."""
    for name in names:
        if not _NODE.fullmatch(name):  # it becomes part of paths and must not lead elsewhere
            raise UsageError(f"Node {name!r} is not 1 to 64 of letters, digits, '.', '_' and '-'.")
        if names.count(name) > 1:
            raise UsageError(f"Node {name!r} is named twice; name each node once.")
    host = socket.gethostname()
    return [Node(name, index, host) for index, name in enumerate(names, start=1)]
