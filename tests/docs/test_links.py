"""Links from one document to another lead somewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "changes").rglob("*.md"))]

_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a page's headings, as hosts of Markdown make them."""
    headings = _HEADING.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Yield each relative link of a page that leads nowhere."""
    for match in _LINK.finditer(_CODE.sub("", text)):
        path, _, anchor = match["target"].partition("#")
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        found = target.exists() and target.is_relative_to(ROOT)
        if not found or (anchor and anchor not in anchors_of(target.read_text() if path else text)):
            yield match["target"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_of_a_page_leads_somewhere(page):
    assert [] == list(broken_links(page, page.read_text()))


def test_planted_broken_links_are_found():
    text = "# Here\n[a](absent.md) [b](#here) [c](#there) [d](plans.md#absent) `[e](absent.md)`\n"
    assert ["absent.md", "#there", "plans.md#absent"] == list(broken_links(ROOT / "docs" / "index.md", text))


def test_every_page_can_be_reached_from_the_index():
    seen: set[Path] = set()
    ahead = [ROOT / "docs" / "index.md"]
    while ahead:
        page = ahead.pop()
        if page not in seen:
            seen.add(page)
            targets = [match["target"].partition("#")[0] for match in _LINK.finditer(page.read_text())]
            ahead += [(page.parent / target).resolve() for target in targets if target.endswith(".md")]
    assert set() == set((ROOT / "docs").rglob("*.md")) - seen
