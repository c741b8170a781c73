"""Output: JSON with a format version, or columns.

Names and keys come from outside, so no printed text is read as markup.
Promises: each JSON object on standard output has `format_version` and `command`; columns are never cut, and nothing
wraps inside a word.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.table import Table as Columns
from rich.text import Text

from apportion.console.print.terminal import Colour, coloured, columns_of

FORMAT_VERSION = 1

_CONSOLE = Console(width=10_000, highlight=False, markup=False, emoji=False, color_system=None)
_GAP = 3
_MARKS = {"+ ": Colour.GREEN, "- ": Colour.RED, "~ ": Colour.YELLOW}


def print_json(command: str, **members: object) -> None:
    """Print the one JSON object of a command."""
    document = {"format_version": FORMAT_VERSION, "command": command, **members}
    print(json.dumps(document, indent=2, ensure_ascii=False))


def print_json_line(command: str, members: Mapping[str, object]) -> None:
    """Print one of many JSON objects of a command, on a line of its own, at once."""
    document = {"format_version": FORMAT_VERSION, "command": command, **members}
    print(json.dumps(document, ensure_ascii=False), flush=True)


def print_columns(headings: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> None:
    """Print a table. The first `words` columns are aligned to the left, all others to the right.

    On a narrow terminal, cells wrap between words. If that is not enough, each row becomes a block of lines.
    A row that begins with the mark +, - or ~ is coloured.
    """
    lines, width = list(rows), columns_of(sys.stdout)
    widths = _widths([headings, *lines], width)
    if widths is None:
        _print_blocks(headings, lines, width or 0)
        return
    columns = Columns(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, (heading, (size, is_whole)) in enumerate(zip(headings, widths, strict=True)):
        justify: JustifyMethod = "right" if place >= words and is_whole else "left"
        columns.add_column(Text(heading), justify=justify, no_wrap=is_whole, width=size)
    for row in lines:
        columns.add_row(*map(Text, row))
    with _CONSOLE.capture() as captured:
        _CONSOLE.print(columns)
    for line in captured.get().splitlines():
        print(coloured(line.rstrip(), _MARKS.get(line[:2]), sys.stdout))


def print_text(text: str) -> None:
    """Print text; on a terminal its lines break between words only."""
    print(wrapped(text, sys.stdout))


def wrapped(text: str, stream: TextIO) -> str:
    """Return text as a stream shows it: on a terminal, its lines break between words only."""
    width = columns_of(stream)
    return text if width is None else "\n".join(each for line in text.split("\n") for each in _folded(line, width))


def _widths(rows: Sequence[Sequence[str]], width: int | None) -> list[tuple[int, bool]] | None:
    """Return the width of each column, and whether its cells stay on one line; None if no widths fit."""
    natural = [max(map(cell_len, cells)) for cells in zip(*rows, strict=True)]
    if width is None:
        return [(size, True) for size in natural]
    longest = [max(max(map(cell_len, cell.split()), default=0) for cell in cells) for cells in zip(*rows, strict=True)]
    least = [natural[0], *longest[1:]]  # the first column names the row
    spare = width - _GAP * (len(natural) - 1) - sum(least)
    if spare < 0:
        return None
    widths = least.copy()
    needs = sorted(range(len(natural)), key=lambda place: natural[place] - least[place])
    for done, place in enumerate(needs):
        share = min(natural[place] - least[place], spare // (len(needs) - done))
        widths[place] += share
        spare -= share
    return [(size, size == full) for size, full in zip(widths, natural, strict=True)]


def _print_blocks(headings: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> None:
    """Print each row as a block, with a line per cell; cells without text are left out."""
    names = [heading.strip() for heading in headings]
    indent = max(map(cell_len, names)) + 2
    for number, row in enumerate(rows):
        if number:
            print()
        for name, cell in zip(names, row, strict=True):
            words = _folded(cell, max(1, width - indent)) if cell.strip() else []
            for place, line in enumerate(words):
                head = (name if place == 0 else "").ljust(indent)
                print(coloured(f"{head}{line.strip()}", _MARKS.get(row[0][:2]), sys.stdout))


def _folded(text: str, width: int) -> list[str]:
    """Return a text in lines; a word that is longer than a line stays whole."""
    first, *words = text.split(" ")
    lines = [first]
    for word in words:
        longer = f"{lines[-1]} {word}"
        if lines[-1].strip() and cell_len(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def key_member(key: bytes) -> dict[str, str]:
    """Return a key as a member of JSON: as text, or in hexadecimal digits if it is not text."""
    try:
        return {"key": key.decode()}
    except UnicodeDecodeError:
        return {"key_hex": key.hex()}
