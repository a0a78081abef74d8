"""The shape of the package: no import cycles, no long lists of branches, one class per name."""

import ast
from pathlib import Path

import shape

SRC = Path(__file__).parents[2] / "src"
TREES = {path: ast.parse(path.read_text()) for path in sorted(SRC.rglob("*.py"))}


def test_no_modules_import_each_other_not_even_lazily() -> None:
    assert shape.cycles(shape.imports(TREES, SRC)) == []


def test_no_function_has_more_than_ten_branches() -> None:
    functions = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, shape.Function)]
    assert [node.name for node in functions if shape.branches(node) > shape.MANY_BRANCHES] == []


def test_a_class_name_occurs_once() -> None:
    assert shape.repeated_classes(TREES) == []


def test_a_cycle_is_found_through_functions_and_strings_but_not_through_annotations() -> None:
    sources = {
        "stem/a.py": "def late():\n    from stem.b import B",
        "stem/b.py": "from importlib import import_module\nimport_module('stem.a')",
        "stem/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import stem.d",
        "stem/d.py": "import stem.c",
    }
    trees = {SRC / path: ast.parse(text) for path, text in sources.items()}
    assert shape.cycles(shape.imports(trees, SRC)) == [{"stem.a", "stem.b"}]
