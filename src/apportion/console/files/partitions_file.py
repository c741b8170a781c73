"""Partitions from a file or standard input: one id per line, or a CSV column of ids and another of sizes.

Promises: every error about one line names the line.
Refuses: a line without an id, an id twice, a size that is not a whole number.
"""

import codecs
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apportion.console.files.io import as_text, read_bounded, read_standard_input
from apportion.errors import InvalidInput, UnknownOption
from apportion.model.topology import check_name

MAX_BYTES = 256 * 2**20

_FILE = "--partitions"


@dataclass(frozen=True, slots=True)
class Listed:
    """Ids in the order of the file, and the bytes of each if a column gives them."""

    ids: list[str]
    sizes: list[int] | None


def read_partitions(name: str, *, column: str | None, size_column: str | None) -> Listed:
    """Return the partitions that a file lists; `-` is standard input. O(size)."""
    if column is None and size_column is not None:
        raise InvalidInput("--size-column", size_column, "--column too", "Name the column of the ids too.")
    lines: dict[str, int] = {}
    sizes = []
    text = _text_of(name)
    for line, partition, size in _lines(text) if column is None else _rows(text, column, size_column):
        try:
            check_name("partition id", partition)
        except InvalidInput as error:
            error.within(f"line {line} of {_FILE}")
            raise
        if partition in lines:
            expected = f"each once; line {lines[partition]} has it too"
            raise InvalidInput(f"partition id in line {line} of {_FILE}", partition, expected, "Drop one of the two.")
        lines[partition] = line
        if size is not None:
            sizes.append(_bytes_in(size, line))
    if not lines:
        raise InvalidInput(_FILE, name, "a file with at least one partition", "Check the file.")
    return Listed(list(lines), sizes if size_column else None)


def _text_of(name: str) -> str:
    """Return the text of the file, without the byte order mark that some editors put before UTF-8."""
    is_stream = name == "-"
    data = read_standard_input(MAX_BYTES, what=_FILE) if is_stream else read_bounded(Path(name), MAX_BYTES, what=_FILE)
    return as_text(data.removeprefix(codecs.BOM_UTF8), name, what=_FILE)


def _lines(text: str) -> Iterator[tuple[int, str, None]]:
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        yield number, line.removesuffix("\r"), None


def _rows(text: str, column: str, size_column: str | None) -> Iterator[tuple[int, str, str | None]]:
    """Yield line, id and size of each row of a CSV file with a header."""
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(rows, [])
        for option, name in (("--column", column), ("--size-column", size_column)):
            if name is not None and name not in header:
                raise UnknownOption(option, name, header)
        place, size_place = header.index(column), None if size_column is None else header.index(size_column)
        for row in rows:
            if len(row) != len(header):
                expected = f"{len(header)} as in the header"
                raise InvalidInput(
                    f"columns in line {rows.line_num} of {_FILE}", len(row), expected, "Correct the line."
                )
            yield rows.line_num, row[place], None if size_place is None else row[size_place]
    except csv.Error as error:
        raise InvalidInput(f"line {rows.line_num} of {_FILE}", str(error), "CSV", "Correct the line.") from error


def _bytes_in(text: str, line: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        expected = "bytes: a whole number, not negative"
        raise InvalidInput(f"size in line {line} of {_FILE}", text, expected, "Correct the line, or leave sizes out.")
    return int(text)
