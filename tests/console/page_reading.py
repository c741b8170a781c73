"""Read a page as a browser's parser would: its elements, attributes and text; every element must be closed in order."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link"}


@dataclass
class Element:
    """An element: its tag, its attributes, and all text within it."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""
    children: list["Element"] = field(default_factory=list)

    def find(self, tag, **wanted):
        """Yield every element of a tag below this one that has these attributes."""
        for child in self.children:
            if child.tag == tag and wanted.items() <= child.attributes.items():
                yield child
            yield from child.find(tag, **wanted)

    def all(self):
        """Yield this element and every one below it."""
        yield self
        for child in self.children:
            yield from child.all()


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert tag == self.open.pop().tag

    def handle_data(self, data):
        for element in self.open:
            element.text += data


def parsed(page):
    """Return the root of a page, given as bytes or text."""
    reader = _Reader()
    reader.feed(page.decode() if isinstance(page, bytes) else page)
    reader.close()
    assert [reader.root] == reader.open, "an element is not closed"
    return reader.root
