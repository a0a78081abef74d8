"""Write a CycloneDX bill of materials of what Stem installs with all extras: names, pinned versions, hashes, licences."""

import hashlib
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
VENDORED = {"htmx.org": "0BSD", "uplot": "MIT"}  # by their names on npm
_PIN = re.compile(r"^([\w.\-]+)==([^\s;\\]+)(?: ; [^\\\n]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Pin:
    name: str
    version: str
    hashes: tuple[str, ...]


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist/sbom.cdx.json")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(
        JsonV1Dot6(bill(pins((ROOT / "requirements/dev.txt").read_text()))).output_as_string(indent=2) + "\n"
    )
    print(f"wrote {target}")


def pins(lock: str) -> dict[str, Pin]:
    """Return what a lock file pins, by normalized name."""
    return {
        canonicalize_name(name): Pin(canonicalize_name(name), version, tuple(re.findall("[0-9a-f]{64}", hashes)))
        for name, version, hashes in _PIN.findall(lock)
    }


def bill(pinned: dict[str, Pin]) -> Bom:
    """Return the bill, the same for the same pins: its time is SOURCE_DATE_EPOCH, if set, and its number follows from it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    root = Component(
        type=ComponentType.LIBRARY, name=project["name"], version=project["version"], bom_ref=project["name"],
        purl=PackageURL("pypi", None, project["name"], project["version"]),
        licenses=[LicenseFactory().make_from_string(project["license"])],
    )  # fmt: skip
    graph = dict(walk(project, pinned))
    components = {name: component(pinned[name]) for name in graph if name != project["name"]}
    components |= {each.name: each for each in vendored()}
    graph[project["name"]] |= VENDORED.keys()
    bom = Bom(components=components.values())
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH") or 0), UTC)
    for name, needs in graph.items():
        bom.register_dependency(components.get(name, root), [components[need] for need in sorted(needs)])
    named = "\n".join(
        f"{each.name}=={each.version}" for each in sorted(components.values(), key=lambda each: each.name)
    )
    bom.serial_number = uuid5(NAMESPACE_URL, f"{root.purl}\n{bom.metadata.timestamp.isoformat()}\n{named}")
    return bom


def vendored() -> Iterator[Component]:
    """Yield the scripts of the dashboard, which the wheel itself has."""
    for name, licence in VENDORED.items():
        folder = ROOT / "src/stem/dashboard/static/vendor" / name.removesuffix(".org")
        version = re.findall(r"[\d.]*\d", (folder / "VERSION").read_text())[0]
        yield Component(
            type=ComponentType.LIBRARY, name=name, version=version, bom_ref=name, purl=PackageURL("npm", None, name, version),
            hashes=[
                HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(path.read_bytes()).hexdigest())
                for path in sorted(folder.glob("*.js"))
            ],
            licenses=[LicenseFactory().make_from_string(licence)],
        )  # fmt: skip


def walk(project: dict[str, object], pinned: dict[str, Pin]) -> Iterator[tuple[str, set[str]]]:
    """Yield each package that an installation with all extras has, with what it needs. Raises SystemExit if one is not
    pinned: the bill would have a gap."""
    own = str(project["name"])
    waiting, done = [(own, frozenset({"all"}))], set()
    needs: dict[str, set[str]] = {}
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in done:
            continue
        done.add((name, extras))
        for need in requirements(name, extras):
            found = canonicalize_name(need.name)
            if found != own and found not in pinned:
                sys.exit(f"{name} needs {found}, which requirements/dev.txt does not pin; run: make lock")
            if found != own:
                needs.setdefault(name, set()).add(found)
            waiting.append((found, frozenset(need.extras)))
    for name in {name for name, _ in done}:
        yield name, needs.get(name, set())


def requirements(name: str, extras: frozenset[str]) -> list[Requirement]:
    """Return what the installed package needs here, with these extras. Raises SystemExit if it is not installed."""
    try:
        found = [Requirement(text) for text in distribution(name).requires or []]
    except PackageNotFoundError:
        sys.exit(f"{name} is not installed, so its licence is unknown; run: make check, which installs it")
    return [
        need for need in found if need.marker is None or any(need.marker.evaluate({"extra": e}) for e in ("", *extras))
    ]


def component(pin: Pin) -> Component:
    return Component(
        type=ComponentType.LIBRARY,
        name=pin.name,
        version=pin.version,
        bom_ref=pin.name,
        purl=PackageURL("pypi", None, pin.name, pin.version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=each) for each in pin.hashes],
        licenses=licences(pin.name),
    )


def licences(name: str) -> list[License]:
    """Return what the package says of itself: an SPDX expression, or the names of its classifiers, or its licence field."""
    told = distribution(name).metadata.json
    if expression := told.get("license_expression"):
        return [LicenseFactory().make_from_string(str(expression))]
    classified = [line.rpartition(" :: ")[2] for line in told.get("classifier", []) if line.startswith("License ::")]
    named = [each for each in classified if each != "OSI Approved"]
    text = str(told.get("license") or "").strip().partition("\n")[0]
    return [DisjunctiveLicense(name=each) for each in named or [text] if each]


if __name__ == "__main__":
    main()
