"""The site: its navigation has every page, and it builds without a warning and without the internet."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.blocks import ROOT

DOCS = ROOT / "docs"
CONFIGURATION = (ROOT / "mkdocs.yml").read_text()
ELSEWHERE = re.compile(r"""(?:<script|<link|<img)[^>]*?(?:src|href)=["']?(https?://[^"'> ]+)""")


def entries(nav: Any) -> Iterator[str]:
    match nav:
        case str(page):
            yield page
        case dict() | list():
            for each in nav.values() if isinstance(nav, dict) else nav:
                yield from entries(each)
        case _:
            raise TypeError(nav)


def test_the_navigation_has_each_page_once() -> None:
    named = list(entries(yaml.safe_load(CONFIGURATION)["nav"]))
    written = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if not page.name.startswith("00")}
    assert len(named) == len(set(named))
    assert set(named) == written


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ
        | {"NO_MKDOCS_2_WARNING": "1", "http_proxy": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert built.returncode == 0, built.stderr
    assert built.stdout + built.stderr == ""
    return folder


def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        assert ELSEWHERE.findall(page.read_text()) == [], page


def test_the_reference_documents_every_public_name(site: Path) -> None:
    import stem

    pages = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    assert [name for name in stem._HOME_OF if f'.{name}" class="doc doc-heading"' not in pages] == []
