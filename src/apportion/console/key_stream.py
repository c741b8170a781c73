"""Keys from arguments, a file, standard input or a column of a CSV file, one at a time.

A line is a key, without its line ending (LF or CRLF); an empty line is the empty key. Keys are bytes: what is not UTF-8
is routed as it is. Promises: memory does not grow with the file; a line beyond the key limit is refused, not read on.
"""

import csv
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Annotated, TypeAlias

from cyclopts import Parameter

from apportion.console.files import open_for_reading, unusable
from apportion.console.topology_file import BYTE_ORDER_MARKS
from apportion.errors import InvalidInput, UnknownOption
from apportion.placement.keys import MAX_KEY_BYTES

# A lone hyphen, standard input, is a value and no option.
KeysFile: TypeAlias = Annotated[str | None, Parameter(allow_leading_hyphen=True)]


def keys_of(arguments: Iterable[str], file: str | None, column: str | None) -> Iterator[bytes]:
    """Return the keys that a command line names; `InvalidInput` if it names none, or names them twice."""
    listed = [os.fsencode(argument) for argument in arguments]
    if (file is None) == (not listed):
        raise InvalidInput(
            "keys", None if file is None else "given twice", "arguments, or --keys FILE", "Use one of the two."
        )
    if column is not None and file is None:
        raise InvalidInput("--column", column, "a CSV file to take it from", "Pass --keys FILE.csv.")
    return iter(listed) if file is None else _keys_in(file, column)


def _keys_in(name: str, column: str | None) -> Iterator[bytes]:
    path = Path(name)
    try:
        with _opened(name) as stream:
            count = 0
            for key in _lines(stream) if column is None else _column(stream, column):
                count += 1
                yield key
            if count == 0 and path.is_fifo():
                raise InvalidInput(
                    "--keys", name, "a pipe that a process writes to", "Start the writer first, or use -."
                )
    except OSError as error:
        raise unusable("--keys", path, error) from error


def _opened(name: str) -> IO[bytes]:
    if name == "-":
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    return os.fdopen(open_for_reading(Path(name), what="--keys"), "rb")


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    number = 0
    while line := stream.readline(MAX_KEY_BYTES + 3):
        number += 1
        key = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(key) > MAX_KEY_BYTES:
            raise InvalidInput(
                f"line {number} of --keys",
                key,
                f"a key of at most {MAX_KEY_BYTES} bytes",
                "Check that it is a file of keys.",
            )
        if number == 1:
            _check_encoding(key)
        yield key


def _column(stream: IO[bytes], column: str) -> Iterator[bytes]:
    csv.field_size_limit(MAX_KEY_BYTES)
    _check_encoding(stream.peek(3) if hasattr(stream, "peek") else b"")
    rows = csv.reader(_bounded(stream), strict=True)
    try:
        header = next(rows, [])
        if column not in header:
            raise UnknownOption("--column", column, header)
        place = header.index(column)
        for row in rows:
            if len(row) <= place:
                raise InvalidInput(
                    f"line {rows.line_num} of --keys",
                    f"{len(row)} columns",
                    f"{len(header)} as in the header",
                    "Mend the line.",
                )
            yield row[place].encode(errors="surrogateescape")
    except csv.Error as error:
        raise InvalidInput(f"line {rows.line_num} of --keys", str(error), "CSV", "Mend the line.") from error


def _bounded(stream: IO[bytes]) -> Iterator[str]:
    """Yield lines for the CSV reader, none longer than 16 keys."""
    limit = 16 * MAX_KEY_BYTES
    while line := stream.readline(limit + 1):
        if len(line) > limit:
            raise InvalidInput("line of --keys", line, f"at most {limit} bytes", "Check that it is a CSV file.")
        yield line.decode(errors="surrogateescape")


def _check_encoding(start: bytes) -> None:
    if start.startswith(BYTE_ORDER_MARKS):
        raise InvalidInput("--keys", start[:3], "UTF-8 without a byte order mark", "Save the file as plain UTF-8.")
