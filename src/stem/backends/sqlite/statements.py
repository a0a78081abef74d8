"""Read the SQL of this store once: one statement per file."""

from collections.abc import Mapping
from importlib.resources import files

_FOLDER = files(__package__) / "sql"


def migrations() -> dict[int, list[str]]:
    """The statements that lead to each version of the schema, in order. Files are named `version_step_what.sql`."""
    steps: dict[int, list[str]] = {}
    for file in sorted((_FOLDER / "schema").iterdir(), key=lambda file: file.name):
        steps.setdefault(int(file.name.split("_")[0]), []).append(file.read_text("utf-8"))
    return dict(sorted(steps.items()))


def _body(text: str) -> str:
    """Strip the comments, because sqlite3 looks at the first word to tell reads from writes."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


SQL: Mapping[str, str] = {
    file.name.removesuffix(".sql"): _body(file.read_text("utf-8"))
    for file in _FOLDER.iterdir()
    if file.name.endswith(".sql")
}
