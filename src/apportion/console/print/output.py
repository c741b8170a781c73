"""Output: JSON with a format version, or columns.

Names and keys come from outside, so no printed text is read as markup.
Promises: the JSON of every command is one object with `format_version` and `command`; columns are never cut.
"""

import json
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table as Columns
from rich.text import Text

FORMAT_VERSION = 1


def print_json(command: str, **members: object) -> None:
    """Print the one JSON object of a command."""
    document = {"format_version": FORMAT_VERSION, "command": command, **members}
    print(json.dumps(document, indent=2, ensure_ascii=False))


def print_columns(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, with the first column aligned to the left and all others to the right."""
    columns = Columns(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, heading in enumerate(headings):
        columns.add_column(Text(heading), justify="left" if place == 0 else "right", no_wrap=True)
    for row in rows:
        columns.add_row(*map(Text, row))
    console = Console(width=10_000, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(columns)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def key_member(key: bytes) -> dict[str, str]:
    """Return a key as a member of JSON: as text, or in hexadecimal digits if it is not text."""
    try:
        return {"key": key.decode()}
    except UnicodeDecodeError:
        return {"key_hex": key.hex()}
