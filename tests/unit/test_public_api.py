"""`docs/api-stability.md` lists exactly what `stem` exports, and everything in the list is typed and documented.

Run this file to write the list anew: `.venv/bin/python tests/unit/test_public_api.py`.
"""

import ast
import inspect
import types
import typing
from pathlib import Path

import pytest

import stem

PAGE = Path(__file__).parents[2] / "docs/api-stability.md"
MARK = "## The names\n"
EXPORTED = sorted(name for names in stem._HOMES.values() for name in names)


def listed() -> str:
    rows = [f"| `{name}` | {_kind(getattr(stem, name))} | {_first_line(name)} |" for name in EXPORTED]
    return "\n".join([MARK, "| name | is | |", "|---|---|---|", *rows, ""])


def _kind(value: object) -> str:
    match value:
        case type() if issubclass(value, BaseException):
            return "error"
        case type():
            return "class"
        case types.FunctionType():
            return "function"
        case _:
            return "type"  # an alias or a union


def _first_line(name: str) -> str:
    value = getattr(stem, name)
    documented = value if isinstance(value, type | types.FunctionType) else None
    whole = inspect.cleandoc((documented and documented.__doc__) or "").partition("\n\n")[0]
    return " ".join(whole.split()).partition(". ")[0].removesuffix(".").replace("|", "\\|")


def test_the_page_lists_exactly_what_is_exported() -> None:
    assert MARK + PAGE.read_text().partition(MARK)[2] == listed(), "run this file to write the list anew"


def test_type_checkers_see_the_same_names_as_programs() -> None:
    tree = ast.parse(Path(stem.__file__).read_text())
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for node in guarded.body if isinstance(node, ast.ImportFrom)]
    seen = {(node.module, name.asname) for node in imports for name in node.names}
    assert seen == {(home, name) for home, names in stem._HOMES.items() for name in names}
    assert set(EXPORTED) <= set(dir(stem))


@pytest.mark.parametrize("name", EXPORTED)
def test_every_public_name_says_what_it_is_and_has_types(name: str) -> None:
    value = getattr(stem, name)
    if not isinstance(value, type | types.FunctionType):
        return
    assert _first_line(name), f"{name} has no docstring"
    methods = [value] if isinstance(value, types.FunctionType) else _own_methods(value)
    for method in methods:
        unannotated = [
            parameter.name
            for parameter in inspect.signature(method).parameters.values()
            if parameter.annotation is inspect.Parameter.empty and parameter.name not in ("self", "cls")
        ]
        assert unannotated == [], f"{name}.{method.__name__}"


def _own_methods(kind: type) -> list[typing.Any]:
    return [
        each
        for attribute, each in vars(kind).items()
        if isinstance(each, types.FunctionType) and not attribute.startswith("_") and each.__module__.startswith("stem")
    ]


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().partition(MARK)[0] + listed())
