"""Reads a Celery project with `ast` and never imports it: what will work with the bridge, what will not, and why."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from stem.compat.celery.app.settings import IGNORED, OLD_NAMES, REFUSED
from stem.compat.celery.refused import APP, BROKERS, CALL, CONTROL, MODULES, TASK
from stem.compat.migration.findings import Finding, Findings, Verdict
from stem.core.errors import UsageError

BRIDGE = "stem.compat.celery"
MOST_BYTES = 4 * 1024 * 1024  # of one file
_SKIPPED = {"node_modules", "site-packages", "__pycache__", "build", "dist", "venv"}
_SENDING = {"apply_async", "send_task", "s", "si", "signature", "set"}
_APPS_OF_OTHERS = {
    "django_celery_beat": "Its schedules are imported once by: stem migrate django-celery-beat --app MODULE:NAME.",
    "django_celery_results": "Results are kept with the tasks; read them with AsyncResult, and remove the app.",
}
_KOMBU = (
    "kombu is Celery's messaging library, and Stem has no exchanges or bindings: route tasks by task_routes, and name a "
    "worker's queues with --queue."
)
PLAIN = "from stem.compat import celery"  # for `import celery`, which binds that name
_FROM = re.compile(r"^(\s*(?:from|import)\s+)celery\b")
_PLAIN = re.compile(r"^(\s*)import celery(?=[ \t]*(?:#|\r?\n|$))")


def read_project(path: Path) -> Findings:
    """Read all Python files below a folder, or one file. Raises UsageError."""
    files = list(_files(path))
    if not files:
        raise UsageError(f"There is no Python file in {path}; name the folder of the project.")
    found: list[Finding] = []
    unreadable: dict[str, str] = {}
    for file in files:
        name = str(file.relative_to(path) if path.is_dir() else file)
        try:
            tree = ast.parse(_text(file), filename=name)
        except (SyntaxError, ValueError, RecursionError, OSError) as error:
            unreadable[name] = str(error)
        else:
            found += sorted(_SourceReader(name, tree).findings(), key=lambda each: each.line)
    return Findings(len(files), found, unreadable)


def rewrite(path: Path) -> list[str]:
    """Change the import lines of a project in place, and nothing else; returns the files that changed."""
    changed = []
    for file in _files(path):
        before = _text(file)
        if "celery" not in before:
            continue
        lines = before.splitlines(keepends=True)
        for node in ast.walk(ast.parse(before)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                line = _PLAIN.sub(rf"\1{PLAIN}", lines[node.lineno - 1])
                lines[node.lineno - 1] = _FROM.sub(rf"\1{BRIDGE}", line)
        if (after := "".join(lines)) != before:
            file.write_text(after)
            changed.append(str(file))
    return changed


class _SourceReader:
    """Reads one file."""

    def __init__(self, file: str, tree: ast.Module) -> None:
        self._file, self._tree = file, tree
        self._apps = {*_apps_in(tree), "current_app"}

    def findings(self) -> Iterator[Finding]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                yield from self._imported(node)
            elif isinstance(node, ast.Call):
                yield from self._call(node)
            elif isinstance(node, ast.Attribute):
                yield from self._attribute(node)
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                yield from self._assigned(node, node.targets[0], node.value)
            elif isinstance(node, ast.AsyncFunctionDef) and any(map(_is_task, node.decorator_list)):
                why = "Declare it on app.stem: @app.stem.task, which runs coroutines."
                yield self._refused(node, f"async def {node.name}", why)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from self._text(node, node.value)

    def _imported(self, node: ast.Import | ast.ImportFrom) -> Iterator[Finding]:
        modules = [each.name for each in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        if any(module.partition(".")[0] == "kombu" for module in modules):
            yield self._refused(node, ast.unparse(node), _KOMBU)
        if isinstance(node, ast.Import):
            yield from (self._plain_import(node, each) for each in node.names if _is_celery(each.name))
        elif node.module is not None and node.level == 0 and _is_celery(node.module):
            yield from self._names(node, node.module, [each.name for each in node.names])

    def _names(self, node: ast.ImportFrom, module: str, names: list[str]) -> Iterator[Finding]:
        if (sentence := _refused_module(module)) is not None:
            yield self._refused(node, f"from {module} import {', '.join(names)}", sentence)
            return
        for name in names:
            try:
                sentence = _missing(module, name)
            except UsageError as error:
                sentence = str(error)
            what = f"from {module} import {name}"
            if sentence is None:
                yield Finding(
                    self._file, node.lineno, Verdict.WORKS, what, f"Write {BRIDGE}{module.removeprefix('celery')}."
                )
            else:
                yield self._refused(node, what, sentence)

    def _plain_import(self, node: ast.Import, name: ast.alias) -> Finding:
        if (sentence := _refused_module(name.name)) is not None:
            return self._refused(node, f"import {name.name}", sentence)
        if name.asname is None:
            return Finding(self._file, node.lineno, Verdict.WORKS, f"import {name.name}", f"Write {PLAIN}.")
        why = f"Write {BRIDGE}{name.name.removeprefix('celery')}."
        return Finding(self._file, node.lineno, Verdict.WORKS, f"import {name.name} as {name.asname}", why)

    def _call(self, node: ast.Call) -> Iterator[Finding]:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        keywords = {each.arg: each.value for each in node.keywords if each.arg is not None}
        if name in _SENDING:
            for option in keywords.keys() & CALL.keys():
                yield self._refused(node, f"{name}({option}=…)", CALL[option])
        if name == "retry" and keywords.keys() & {"args", "kwargs"}:
            yield self._refused(node, "retry(args=…)", "Use self.replace(self.s(…).set(countdown=…)).")
        serializer = keywords.get("serializer")
        if isinstance(serializer, ast.Constant) and serializer.value not in ("json", None):
            yield self._refused(node, f"serializer={serializer.value!r}", "Stem carries JSON only; leave it out.")
        if name == "update" and isinstance(node.func, ast.Attribute) and _ends_with(node.func.value, "conf"):
            for option, value in keywords.items():
                yield from self._setting(node, option, value)

    def _attribute(self, node: ast.Attribute) -> Iterator[Finding]:
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id in self._apps and node.attr in APP:
            yield self._refused(node, f"{owner.id}.{node.attr}", APP[node.attr])
        if _ends_with(owner, "control") and node.attr in CONTROL:
            yield self._refused(node, f"control.{node.attr}", CONTROL[node.attr])
        if isinstance(owner, ast.Name) and owner.id == "self" and node.attr in ("send_event", "signature_from_request"):
            yield self._refused(node, f"self.{node.attr}", TASK[node.attr])

    def _assigned(self, node: ast.Assign, target: ast.expr, value: ast.expr) -> Iterator[Finding]:
        if isinstance(target, ast.Attribute) and _ends_with(target.value, "conf"):
            yield from self._setting(node, target.attr, value)
        elif isinstance(target, ast.Name):
            if target.id in OLD_NAMES:
                yield from self._setting(node, OLD_NAMES[target.id], value)
            elif target.id.startswith("CELERY_"):
                yield from self._setting(node, target.id.removeprefix("CELERY_").lower(), value)
            elif target.id in REFUSED or target.id in IGNORED:  # a module of settings
                yield from self._setting(node, target.id, value)

    def _setting(self, node: ast.expr | ast.stmt, name: str, value: ast.expr) -> Iterator[Finding]:
        said = value.value if isinstance(value, ast.Constant) else None
        if name in REFUSED:
            yield self._refused(node, name, REFUSED[name])
        elif name in ("task_serializer", "result_serializer") and said not in (None, "json"):
            yield self._refused(node, f"{name} = {said!r}", "Stem carries JSON only; set it to 'json'.")
        elif name in IGNORED:
            yield Finding(self._file, node.lineno, Verdict.DIFFERS, name, f"It has no effect. {IGNORED[name]}")

    def _text(self, node: ast.Constant, text: str) -> Iterator[Finding]:
        scheme = text.partition("://")[0].lower()
        if "://" in text and scheme in BROKERS:
            sentence = (
                "Stem keeps tasks in SQLite, Redis or Postgres; set broker_url or STEM_BROKER_URL to one of them."
            )
            yield self._refused(node, f"{scheme}://… ({BROKERS[scheme]})", sentence)
        elif text in _APPS_OF_OTHERS:
            yield Finding(self._file, node.lineno, Verdict.DIFFERS, text, _APPS_OF_OTHERS[text])

    def _refused(self, node: ast.expr | ast.stmt, what: str, why: str) -> Finding:
        return Finding(self._file, node.lineno, Verdict.REFUSED, what, why)


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for file in sorted(path.rglob("*.py")):
        parts = file.relative_to(path).parts
        if not any(part in _SKIPPED or part.startswith(".") for part in parts) and file.is_file():
            yield file


def _text(file: Path) -> str:
    if file.stat().st_size > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    return file.read_text(encoding="utf-8")


def _is_celery(module: str) -> bool:
    return module == "celery" or module.startswith("celery.")


def _refused_module(module: str) -> str | None:
    for name, sentence in MODULES.items():
        if module == name or module.startswith(f"{name}."):
            return sentence
    if find_spec(f"{BRIDGE}{module.removeprefix('celery')}") is None:
        return f"The bridge has no module {module}; docs/coming-from-celery.md lists those that it has."
    return None


def _missing(module: str, name: str) -> str | None:
    """Why the bridge has no such name. Imports modules of the bridge alone. Raises UsageError with the sentence."""
    bridge = f"{BRIDGE}{module.removeprefix('celery')}"
    if name == "*" or hasattr(import_module(bridge), name) or find_spec(f"{bridge}.{name}") is not None:
        return None
    return MODULES.get(f"{module}.{name}", f"The bridge's {module} has no {name}.")


def _apps_in(tree: ast.Module) -> Iterator[str]:
    """Names that the file gives to apps."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _ends_with(node.value.func, "Celery"):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _is_task(decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return _ends_with(function, "task") or _ends_with(function, "shared_task")


def _ends_with(node: ast.expr, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)
