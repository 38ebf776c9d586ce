"""The pages lead somewhere, and leave nothing out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from housekeeping import ROOT
from retinue.cli.group import COMMANDS

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".sh"))
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_is_named_in_the_readme(name: str) -> None:
    assert name in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_described_on_a_page(name: str) -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES if page.name != "CHANGELOG.md"]
    assert any(f"retinue {name}" in text for text in texts)


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached and page.suffix == ".md" and page.is_file():
            reached.add(page)
            links = LINK.findall(page.read_text(encoding="utf-8"))
            waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links if "://" not in link]
    assert {page.name for page in PAGES} - {page.name for page in reached} == set()
