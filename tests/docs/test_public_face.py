"""The first page is short, every page has short sentences, and the index leads to every page once."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT

DOCS = ROOT / "docs"
MOST_WORDS_BEFORE_REFERENCE = 700
MOST_WORDS_IN_A_SENTENCE = 25
MOST_WHAT_PER_1_000, MOST_WHO_PER_1_000 = 2, 1

_BLOCK = re.compile(r"^```.*?^```$|^ {4}.*?$|<!--.*?-->", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(r"\]\((?P<target>[^)#\s]*)[^)]*\)")
# A sentence ends with its paragraph, its item of a list or its cell of a table, and before a heading.
_PART = re.compile(r"\n\s*\n|\n(?=[-*] |\d+\. )|^#.*$|\|", re.MULTILINE)


def sentences_of(text: str) -> Iterator[str]:
    """Yield each sentence of a page; a link counts with its words only, and a block of code not at all."""
    for part in _PART.split(_TARGET.sub("]", _BLOCK.sub("\n\n", text))):
        yield from re.split(r"(?<=[.!?])\W*\s", " ".join(part.split()))


def long_sentences(text: str) -> list[str]:
    """Return the sentences of a page with too many words; a word has a letter or a digit."""
    counted = {each: len(re.findall(r"\S*\w\S*", each)) for each in sentences_of(text)}
    return [each for each, words in counted.items() if words > MOST_WORDS_IN_A_SENTENCE]


def unlisted(pages: list[Path], folder: Path, text: str) -> dict[str, int]:
    """Return the pages that a page of `folder` does not link exactly once, with the number of its links."""
    links = Counter((folder / match["target"]).resolve() for match in _TARGET.finditer(text))
    return {str(page.relative_to(ROOT)): links[page] for page in pages if links[page] != 1}


def unnamed_files(text: str) -> list[str]:
    """Return the files of a page that the paragraph above their block does not name."""
    return [
        match[1]
        for match in re.finditer(r"^<!-- file: (\S+) -->$", text, re.MULTILINE)
        if f"`{match[1]}`" not in text[: match.start()].removesuffix("\n\n").rpartition("\n\n")[2]
    ]


def test_the_readme_is_short_before_its_reference():
    first, found, _ = (ROOT / "README.md").read_text().partition("\n## Reference\n")
    assert found
    assert len(first.split()) <= MOST_WORDS_BEFORE_REFERENCE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_of_a_page_is_long(page):
    assert [] == long_sentences(page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_each_file_that_a_reader_has_to_make(page):
    assert [] == unnamed_files(page.read_text())


def test_a_planted_file_without_a_name_is_found():
    block = "<!-- file: app.py -->\n```python\n```\n"
    assert ["app.py"] == unnamed_files(f"A program:\n\n{block}")
    assert ["app.py"] == unnamed_files(f"File `app.py`:\n\n{block}\nA program:\n\n{block}")
    assert [] == unnamed_files(f"Put this into\n`app.py`:\n\n{block}")


def test_pages_name_the_thing():
    words = [word.lower() for page in PAGES for word in re.findall(r"[A-Za-z']+", _BLOCK.sub("", page.read_text()))]
    assert words.count("what") <= MOST_WHAT_PER_1_000 * len(words) / 1_000
    assert sum(word in ("who", "whom", "whose", "whoever") for word in words) <= MOST_WHO_PER_1_000 * len(words) / 1_000


def test_the_index_links_every_page_once_and_the_decisions_by_their_own_index():
    numbered = sorted((DOCS / "decisions").glob("0*.md"))
    pages = [page for page in sorted(DOCS.rglob("*.md")) if page not in numbered and page != DOCS / "index.md"]
    assert {} == unlisted(pages, DOCS, (DOCS / "index.md").read_text())
    assert {} == unlisted(numbered, DOCS / "decisions", (DOCS / "decisions" / "README.md").read_text())


def test_the_index_asks_in_six_parts():
    parts = re.findall(r"^## (.+)$", (DOCS / "index.md").read_text(), re.MULTILINE)
    assert ["Start", "By job", "Concepts", "Reference", "Operate", "Internals"] == parts


def test_the_picture_of_the_readme_is_the_one_that_its_example_draws(tmp_path):
    subprocess.run([sys.executable, ROOT / "examples" / "draw_moves.py"], cwd=tmp_path, check=True, timeout=60)
    assert (tmp_path / "moves.svg").read_text() == (DOCS / "moves.svg").read_text()


def test_a_planted_long_sentence_is_found_wherever_it_stands():
    long = " ".join(["word"] * 26)
    for page in (f"{long}.", f"# Title\n{long}", f"A [b](c.md). {long}!", f"- one\n- {long}\n", f"| a | {long} |\n"):
        assert [long] == [each.strip("-.! ") for each in long_sentences(page)]
    short = " ".join(["word"] * 25)
    assert [] == long_sentences(f"{short}. {short}.\n- {short}\n\n```text\n{long}\n```\n| {short} | {short} |")


def test_planted_missing_and_double_links_are_found():
    pages = [DOCS / "plans.md", DOCS / "keys.md", DOCS / "bulk.md"]
    assert {"docs/keys.md": 2, "docs/bulk.md": 0} == unlisted(pages, DOCS, "[a](plans.md) [b](keys.md#x) [c](keys.md)")
