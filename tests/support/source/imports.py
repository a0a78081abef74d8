"""What a file imports."""

import ast
from collections.abc import Iterator
from pathlib import Path


def imported(path: Path) -> Iterator[str]:
    """The packages that a file names, at its head or within its functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]
