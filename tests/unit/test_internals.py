"""docs/internals.md names files and functions that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "internals.md").read_text()
STEP = re.compile(r"`([\w/]+\.py)` · `([\w.]+)`")
FILE = re.compile(r"`([\w/]+\.py)`")


@pytest.mark.parametrize(("file", "name"), sorted(set(STEP.findall(PAGE))))
def test_every_step_names_a_function_of_its_file(file: str, name: str) -> None:
    path = ROOT / "src" / "stem" / file
    assert path.is_file(), f"there is no src/stem/{file}"
    found = names(ast.parse(path.read_text()))
    assert name in found, f"src/stem/{file} has no {name}; it has {', '.join(sorted(found))}"


def test_every_file_of_the_page_exists() -> None:
    files = [file for file in FILE.findall(PAGE) if not file.startswith("tests/")]
    assert [file for file in files if not (ROOT / "src" / "stem" / file).is_file()] == []


def names(tree: ast.Module) -> set[str]:
    """Functions, classes and methods (as `Class.method`) of a module."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (inner for inner in node.body if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{method.name}" for method in methods}
    return found
