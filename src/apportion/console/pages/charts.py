"""Charts as SVG inside an HTML page: pure functions from numbers to strings.

Widths are per cent of the available space, heights and letters are pixels. So a chart fits a telephone and a wide
screen, and its letters stay legible. The page's style sheet gives colours to the classes below. The page has `PATTERNS`
once.

Promises: every text is escaped; every chart has an accessible name. Parts of a bar differ in pattern and marks differ
in shape, not only in colour.
Refuses: scripts, and references outside the page. It also refuses to choose the drawing: a caller with very many bars
asks for columns of counts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from rich.cells import cell_len

LABEL_CELLS = 14

_ROW = 21
_THICK = 13
_GAP = 9
_LETTER_ROOM = 15
_LABEL_END = 33.0
_START = 35.0
_SPAN = 34.0
_COLUMN_TOP, _COLUMN_BOTTOM, _COLUMN_HEIGHT = 18, 118, 138

PATTERNS = (
    '<svg class="defs" aria-hidden="true" width="0" height="0"><defs>'
    '<pattern id="striped" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="ground" width="6" height="6"/><rect class="stripe" width="3" height="6"/></pattern></defs></svg>'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar from zero: a plain part, a striped part after it, and a mark to compare the end with.

    `label` stands before the bar; it is empty if the bar belongs to the label above it. `letter` stands between label
    and bar, `value` at the end of the bar. The plain part of a hollow bar is an outline: the method of the bar breaks
    the zone rule.
    """

    label: str
    value: str
    plain: float
    striped: float = 0.0
    mark: float | None = None
    letter: str = ""
    is_hollow: bool = False


def bars(listed: Sequence[Bar], *, most: float, name: str) -> str:
    """Return horizontal bars; the longest possible bar has the value `most`. `name` describes the chart. O(bars)."""
    cells = LABEL_CELLS - any(bar.letter for bar in listed)
    short = shortened([bar.label for bar in listed], cells)
    pieces, y = [], 0
    for bar in listed:
        y += _GAP if bar.label and bar.letter and y else 0
        pieces.append("".join(_bar(bar, short[bar.label], y, most)))
        y += _ROW
    axis = f'<line class="axis" x1="{_START}%" x2="{_START}%" y1="0" y2="{y}"/>'
    return _svg(axis + "".join(pieces), height=y, name=name)


def titled_bars(title: str, listed: Sequence[Bar]) -> str:
    """Return a heading, and bars that fill the width; the name of the chart tells every value."""
    most = max((max(bar.plain + bar.striped, bar.mark or 0.0) for bar in listed), default=0.0)
    name = f"{title}: " + ", ".join(f"{bar.label} {bar.value}" for bar in listed)
    return f"<div><h3>{escape(title)}</h3>{bars(listed, most=most, name=name)}</div>"


def columns(counts: Sequence[int], *, edges: Sequence[str], most: int, mark_after: int, name: str) -> str:
    """Return vertical columns of counts, names for the edges between them, and a dashed line.

    The line stands after the first `mark_after` columns.
    """
    width = 100 / len(counts)
    pieces = [_column(count, place * width, width, most) for place, count in enumerate(counts)]
    pieces += [
        f'<text class="edge" x="{_number(place * width)}%" y="{_COLUMN_BOTTOM + 15}">{escape(edge)}</text>'
        for place, edge in enumerate(edges, 1)
    ]
    x = f"{_number(mark_after * width)}%"
    axis = f'<line class="axis" x1="0" x2="100%" y1="{_COLUMN_BOTTOM}" y2="{_COLUMN_BOTTOM}"/>'
    mark = f'<line class="dashes" x1="{x}" x2="{x}" y1="2" y2="{_COLUMN_BOTTOM + 4}"/>'
    return _svg("".join(pieces) + axis + mark, height=_COLUMN_HEIGHT, name=name)


def swatch(kind: str) -> str:
    """Return a sample for a legend: `plain`, `hollow`, `striped`, `mark` or `dashes`."""
    shapes = {
        "plain": '<rect class="plain" y="1" width="18" height="12"/>',
        "hollow": '<rect class="hollow" x="1" y="2" width="16" height="10"/>',
        "striped": '<rect class="striped" y="1" width="18" height="12"/>',
        "mark": '<rect class="mark" x="9" width="4" height="14"/>',
        "dashes": '<line class="dashes" x1="9" x2="9" y1="0" y2="14"/>',
    }
    return f'<svg class="swatch" aria-hidden="true" width="18" height="14">{shapes[kind]}</svg>'


def shortened(names: Iterable[str], cells: int = LABEL_CELLS) -> dict[str, str]:
    """Return names of at most `cells` letters in width; a part of each longer name is left out.

    A wide letter counts as two. The part is at the same place in all names. It is chosen so that as many names as
    possible stay distinct. O(cells · names).

    >>> list(shortened(["db-01.eu.example.com", "db-02.eu.example.com"]).values())
    ['db-01.eu.exam…', 'db-02.eu.exam…']
    >>> list(shortened(["the-same-beginning-1", "the-same-beginning-2", "db"]).values())
    ['the-same-beg…1', 'the-same-beg…2', 'db']
    """
    distinct = dict.fromkeys(names)
    tries = [{name: _cut(name, cells, tail) for name in distinct} for tail in range(cells)]
    return max(tries, key=lambda tried: len(set(tried.values())))


def _cut(text: str, cells: int, tail_cells: int) -> str:
    if cell_len(text) <= cells:
        return text
    head_cells = cells - 1 - tail_cells
    head = next(text[:end] for end in range(len(text), -1, -1) if cell_len(text[:end]) <= head_cells)
    tail = next(text[start:] for start in range(len(text) + 1) if cell_len(text[start:]) <= tail_cells)
    return f"{head}…{tail}"


def _bar(bar: Bar, short: str, y: int, most: float) -> Iterator[str]:
    """Yield the label, the parts, the mark and the value of a bar; its row begins at height `y`."""
    top, base = y + (_ROW - _THICK) // 2, y + _ROW - 6
    plain, end = _length(bar.plain, most), _length(bar.plain + bar.striped, most)
    if bar.label:
        whole = "" if short == bar.label else f"<title>{escape(bar.label)}</title>"
        room = _LETTER_ROOM if bar.letter else 0
        yield f'<text class="label" x="{_LABEL_END}%" dx="{-room}" y="{base}">{whole}{escape(short)}</text>'
    if bar.letter:
        yield f'<text class="letter" x="{_LABEL_END}%" y="{base}">{escape(bar.letter)}</text>'
    if bar.plain:
        kind = "hollow" if bar.is_hollow else "plain"
        yield f'<rect class="{kind}" x="{_START}%" y="{top}" width="{_number(plain)}%" height="{_THICK}"/>'
    if bar.striped:
        x, width = _number(_START + plain), _number(end - plain)
        yield f'<rect class="striped" x="{x}%" y="{top}" width="{width}%" height="{_THICK}"/>'
    beyond = end
    if bar.mark is not None:
        place = _length(bar.mark, most)
        x, beyond = f"{_number(_START + place)}%", max(end, place)
        yield f'<rect class="mark" x="{x}" y="{top - 3}" width="4" height="{_THICK + 6}"/>'
    yield f'<text class="value" x="{_number(_START + beyond)}%" dx="6" y="{base}">{escape(bar.value)}</text>'


def _column(count: int, x: float, width: float, most: int) -> str:
    if not count:
        return ""
    height = max(1.0, (_COLUMN_BOTTOM - _COLUMN_TOP) * count / most)
    top, left, wide = _number(_COLUMN_BOTTOM - height), _number(x + width * 0.08), _number(width * 0.84)
    middle = (
        f'<text class="count" x="{_number(x + width / 2)}%" y="{_number(_COLUMN_BOTTOM - height - 4)}">{count}</text>'
    )
    return f'<rect class="plain" x="{left}%" y="{top}" width="{wide}%" height="{_number(height)}"/>{middle}'


def _length(value: float, most: float) -> float:
    return _SPAN * min(1.0, value / most) if most else 0.0


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _svg(content: str, *, height: int, name: str) -> str:
    return f'<svg class="chart" role="img" aria-label="{escape(name)}" width="100%" height="{height}">{content}</svg>'
