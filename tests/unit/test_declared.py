"""What the package imports is what it declares: a user has none of the packages of our development environment."""

import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from support.source.imports import imported

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]

# Packages whose import name is not their own, and what comes with exactly PySpark's version: the bridge to Java, Connect.
IMPORTED_AS = {
    "pyyaml": ["yaml"],
    "pyspark": ["pyspark", "py4j", "grpc"],
    "opentelemetry-api": ["opentelemetry"],
    "argon2-cffi": ["argon2"],
    "jinja2": ["jinja2", "markupsafe"],  # which is its own dependency and part of its interface
    "prometheus-client": ["prometheus_client"],
}

# A user's own framework: looked for in the program, or imported by the integration that is for it.
OF_THE_USER = {"django", "asgiref", "fastapi", "flask"}


def declared(requirements: list[str]) -> set[str]:
    names = [Requirement(each).name.lower() for each in requirements]
    return {module for name in names for module in IMPORTED_AS.get(name, [name])}


def strangers(paths: list[Path], allowed: set[str]) -> dict[str, list[str]]:
    known = allowed | sys.stdlib_module_names | {"stem", "pyspark_stem"} | OF_THE_USER
    return {
        name: [str(path.relative_to(ROOT)) for path in paths if name in set(imported(path))]
        for name in {name for path in paths for name in imported(path)} - known
    }


def test_every_package_that_is_imported_is_declared() -> None:
    everything = [*PROJECT["dependencies"], *(each for extra in EXTRAS.values() for each in extra)]
    assert strangers(sorted((ROOT / "src").rglob("*.py")), declared(everything)) == {}


@pytest.mark.parametrize(
    ("folder", "extra"), [("pipeline", "spark"), ("backends/redis", "redis"), ("backends/postgres", "postgres")]
)
def test_a_part_imports_only_what_its_own_extra_brings(folder: str, extra: str) -> None:
    allowed = declared([*PROJECT["dependencies"], *EXTRAS[extra]])
    assert strangers(sorted((ROOT / "src/stem" / folder).rglob("*.py")), allowed) == {}
