"""Ranges as CSV: `start,end,owners`, one range per line, for tables made elsewhere and for programs that read ours.

Positions are hexadecimal and ranges half-open; every column after the second is an owner, the leader first.
Promises: a written table reads back as the same ranges; every error in a range names its line.
"""

import csv
import io
from pathlib import Path

from apportion.console.files.io import read_bounded
from apportion.console.files.output_file import FileKind, kind_of
from apportion.errors import InvalidInput
from apportion.model import codec
from apportion.model.table import Owners, Table
from apportion.model.token import KeyRange, position_of_text, position_text

HEADING = ("start", "end", "owners")


def read_ranges(path: Path) -> list[tuple[KeyRange, Owners]]:
    """Return the ranges that a CSV file lists, in its order."""
    data = read_bounded(path, codec.MAX_BYTES, what="CSV file")
    try:
        rows = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        kind = kind_of(data)
        hint = "Correct the file, or name its --format." if kind is FileKind.OTHER else f"The file is {kind.value}."
        raise InvalidInput("CSV file", str(path), f"CSV in UTF-8 ({error})", hint) from error
    if not rows or tuple(rows[0][:3]) != HEADING:
        hint = "Write this heading as the first line."
        raise InvalidInput("heading of the CSV file", ",".join(rows[0]) if rows else "", ",".join(HEADING), hint)
    ranges = []
    for number, row in enumerate(rows[1:], 2):
        try:
            ranges += [_range(row)] if row else []
        except InvalidInput as error:
            error.within(f"line {number} of the CSV file")
            raise
    return ranges


def write_ranges(table: Table) -> bytes:
    """Return every range of a table as CSV, in order. CSV has no place for zones, weights and the hasher."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADING)
    writer.writerows((position_text(r.start), position_text(r.end), *owners) for r, owners in table.ranges())
    return text.getvalue().encode()


def _range(row: list[str]) -> tuple[KeyRange, Owners]:
    start = position_of_text(row[0])
    if len(row) < 3 or start is None:
        expected = "start, end (both hexadecimal) and at least one owner"
        raise InvalidInput("range", ",".join(row), expected, "Correct the line.")
    return KeyRange(start, position_of_text(row[1])), tuple(row[2:])
