"""The documents: links lead somewhere, every decision is in the index, and prose wraps at 100 columns."""

import re
from pathlib import Path

import pytest

from docs.blocks import PAGES as DOCUMENTS
from docs.blocks import ROOT

PAGES = [*DOCUMENTS, ROOT / "CONTRIBUTING.md"]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
by_name = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@by_name
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@by_name
def test_prose_wraps_at_100_columns(page: Path) -> None:
    is_code, long = False, []
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        is_code ^= line.lstrip().startswith("```")
        if len(line) > 100 and not is_code and not line.lstrip().startswith(("|", "```", "#")):
            long.append(number)
    assert long == []


def test_the_index_of_decisions_has_each_page_with_its_title() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for page in sorted((ROOT / "docs" / "decisions").glob("0*.md")):
        heading = page.read_text().splitlines()[0]
        number, title = page.name[:4], heading.partition("·")[2].strip()
        assert heading.startswith(f"# {number} · "), page.name
        assert f"| [{number}]({page.name}) | {title}" in index


def test_the_glossary_is_in_alphabetical_order_and_explains_each_word_once() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text().splitlines()
    words = [line.split("|")[1].strip().lower() for line in lines if line.startswith("| ")][1:]
    assert words == sorted(set(words))


def test_every_guarantee_of_the_readme_names_a_test_that_exists() -> None:
    rows = re.findall(r"\[(test_\w+)\]\((tests/[\w/]+\.py)\)", (ROOT / "README.md").read_text())
    assert len(rows) >= 10
    assert [name for name, file in rows if f"def {name}(" not in (ROOT / file).read_text()] == []
