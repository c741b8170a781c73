"""Notebook: a value as HTML, for notebooks, which call `_repr_html_` of an object.

Promises: a small fragment without scripts and links. Every text is escaped. The colours are those of the page, so the
fragment can be read on a light page and on a dark one.
"""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

MOST_ROWS = 20


def html_of(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], count: int) -> str:
    """Return a title and a table of the first rows; `count` is the number of all rows."""
    first = list(islice(rows, MOST_ROWS))
    lines = [_line("th", head), *(_line("td", row) for row in first)] if first else []
    more = f"<p>… {count - len(first)} more</p>" if count > len(first) else ""
    return f"<div><p><code>{escape(title)}</code></p><table>{''.join(lines)}</table>{more}</div>"


def _line(tag: str, cells: Iterable[str]) -> str:
    # Ids are aligned left and numbers right, as in the tables that commands print.
    sides = ("left", *["right"] * MOST_ROWS)
    written = (
        f'<{tag} style="text-align:{side}">{escape(cell)}</{tag}>' for cell, side in zip(cells, sides, strict=False)
    )
    return f"<tr>{''.join(written)}</tr>"
