"""Prints the shape of the package: sizes, branches, import cycles, repeated names and the files a task passes through.

Usage: `python tools/shape.py [ROOT]`, where ROOT is a checkout; the default is this one.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

MANY_BRANCHES = 10
Function = ast.FunctionDef | ast.AsyncFunctionDef
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.match_case)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def main(root: Path) -> None:
    for name, value in measure(root):
        print(f"{name:<34}{value}")


def measure(root: Path) -> Iterator[tuple[str, object]]:
    """Yields one (name, value) pair per figure."""
    src = root / "src"
    texts = {path: path.read_text() for path in sorted(src.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lines = {path: len(text.splitlines()) for path, text in texts.items()}
    functions = [(path, node) for path, tree in trees.items() for node in ast.walk(tree) if isinstance(node, Function)]
    folders = Counter(path.parent for path in trees if path.name != "__init__.py")
    branchy = [(path, node) for path, node in functions if branches(node) > MANY_BRANCHES]

    yield "modules", len(trees)
    yield "lines of Python", sum(lines.values())
    yield (
        "lines of SQL and Lua",
        sum(len(p.read_text().splitlines()) for s in ("sql", "lua") for p in src.rglob(f"*.{s}")),
    )
    folder, count = max(folders.items(), key=lambda item: item[1])
    yield "largest folder (modules)", f"{count}  {folder.relative_to(src)}"
    largest = max(lines, key=lines.__getitem__)
    yield "largest file (lines)", f"{lines[largest]}  {largest.relative_to(src)}"
    path, longest = max(functions, key=lambda item: length(item[1]))
    yield "longest function (lines)", f"{length(longest)}  {path.relative_to(src)}:{longest.name}"
    yield f"functions over {MANY_BRANCHES} branches", listed(f"{p.relative_to(src)}:{n.name}" for p, n in branchy)
    yield (
        "import cycles, lazy ones included",
        listed(" ↔ ".join(sorted(cycle)) for cycle in cycles(imports(trees, src))),
    )
    yield "class names in several files", listed(repeated_classes(trees))
    yield "first lines of several modules", listed(repeated_first_lines(trees))
    if (page := root / "docs" / "internals.md").exists():
        yield "files on the way of a task", len(files_of_a_task(page.read_text()))


def length(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def branches(function: Function) -> int:
    """Counts the branches of a function without those of the functions nested in it."""
    found, todo = 0, list(ast.iter_child_nodes(function))
    while todo:
        node = todo.pop()
        if isinstance(node, SCOPES):
            continue
        found += isinstance(node, BRANCHES)
        todo.extend(ast.iter_child_nodes(node))
    return found


def imports(trees: dict[Path, ast.Module], src: Path) -> dict[str, set[str]]:
    """Maps each module to the modules it imports, at its top or in a function. Imports for type checkers do not count."""
    modules = {module_name(path, src): tree for path, tree in trees.items()}
    graph: dict[str, set[str]] = defaultdict(set)
    for module, tree in modules.items():
        for node in runtime_nodes(tree):
            for target in imported(node, modules):
                if target != module:
                    graph[module].add(target)
    return graph


def module_name(path: Path, src: Path) -> str:
    return ".".join(path.relative_to(src).with_suffix("").parts).removesuffix(".__init__")


def runtime_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo.extend(node.orelse)
            continue
        yield node
        todo.extend(ast.iter_child_nodes(node))


def imported(node: ast.AST, modules: dict[str, ast.Module]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in modules)
    elif isinstance(node, ast.ImportFrom) and node.module in modules:
        for alias in node.names:
            below = f"{node.module}.{alias.name}"
            yield below if below in modules else node.module
    # import_module("stem.…") and the like name their module in a string.
    elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
        yield from (a.value for a in node.args if isinstance(a, ast.Constant) and a.value in modules)


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Finds the sets of modules that import each other, directly or by way of others (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            cut = stack.index(node)
            members = set(stack[cut:])
            del stack[cut:]
            if len(members) > 1:
                found.append(members)

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def repeated_classes(trees: dict[Path, ast.Module]) -> list[str]:
    names = Counter(node.name for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef))
    return [f"{name} ×{count}" for name, count in sorted(names.items()) if count > 1]


def repeated_first_lines(trees: dict[Path, ast.Module]) -> list[str]:
    lines = Counter((ast.get_docstring(tree) or "").split("\n")[0] for tree in trees.values())
    return [f"“{line}” ×{count}" for line, count in sorted(lines.items()) if line and count > 1]


def files_of_a_task(page: str) -> set[str]:
    """The files that the first walk of docs/internals.md names, from `enqueue` to the ending."""
    walk = page.split("\n## ")[1].split("\n### ")[0]
    return set(re.findall(r"`([\w/]+\.py)`", walk))


def listed(items: Iterable[str]) -> str:
    found = list(items)
    return f"{len(found)}  {'; '.join(found)}".rstrip()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parents[1])
