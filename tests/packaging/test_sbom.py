"""`make sbom`: a valid bill of materials that names exactly what an installation with all extras gets."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

import sbom

ROOT = Path(__file__).parents[2]


def bill(folder: Path, name: str, epoch: int = 1_700_000_000) -> str:
    command = [sys.executable, str(ROOT / "tools/sbom.py"), str(folder / name)]
    subprocess.run(command, check=True, env={"SOURCE_DATE_EPOCH": str(epoch)}, capture_output=True, timeout=60)
    return (folder / name).read_text()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return bill(tmp_path_factory.mktemp("sbom"), "bom.json")


@pytest.fixture
def parts(text: str) -> dict[str, Any]:
    return {each["name"]: each for each in json.loads(text)["components"]}


def test_the_bill_is_valid_and_the_same_for_the_same_pins(text: str, tmp_path: Path) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert bill(tmp_path, "again.json") == text
    assert bill(tmp_path, "later.json", epoch=1_800_000_000) != text


def test_every_part_has_the_pinned_version_its_hashes_and_a_licence(parts: dict[str, Any]) -> None:
    pinned = sbom.pins((ROOT / "requirements/dev.txt").read_text())
    for name, part in parts.items():
        assert part["licenses"], name
        if name not in sbom.VENDORED:
            assert part["version"] == pinned[name].version
            assert {each["content"] for each in part["hashes"]} == set(pinned[name].hashes) != set()


def test_the_bill_names_every_extra_the_scripts_of_the_dashboard_and_no_tool_of_ours(
    parts: dict[str, Any], text: str
) -> None:
    assert {"msgspec", "redis", "psycopg-binary", "pyspark", "starlette", "textual", "opentelemetry-sdk"} <= set(parts)
    assert {"htmx.org", "uplot"} <= set(parts) and not {"pytest", "mypy", "celery", "django"} & set(parts)
    needs = {each["ref"]: each.get("dependsOn", []) for each in json.loads(text)["dependencies"]}
    assert set(needs) == {*parts, "stem-tasks"}
    assert {need for each in needs.values() for need in each} == set(parts)  # each is there because another needs it
