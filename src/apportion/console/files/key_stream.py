"""Key stream: keys from arguments, a file, standard input or a column of a CSV file, in batches.

A line is a key, without its line ending (LF or CRLF); an empty line is the empty key. Keys are bytes: a line that is
not UTF-8 is routed as its bytes.
Promises: memory does not grow with the file. A line beyond the key limit is refused, and the rest of it is not read.
"""

import csv
import os
import sys
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from apportion.console.files.io import open_for_reading, unusable
from apportion.console.files.topology_file import BYTE_ORDER_MARKS
from apportion.errors import InvalidInput, UnknownOption
from apportion.placement.keys.key_bytes import MAX_KEY_BYTES

CHUNK_BYTES = 1 << 18

# A lone hyphen means standard input: it is a value, not an option.
KeysFile: TypeAlias = Annotated[str | None, Parameter(allow_leading_hyphen=True)]
Column = Annotated[str | None, Parameter(help="Take the keys from this column of a CSV file with a header.")]


def batches_of(arguments: Iterable[str], file: str | None, column: str | None) -> Iterator[list[bytes]]:
    """Return the keys of a command line in lists, as they arrive.

    Raises `InvalidInput` unless the command line has exactly one source of keys. The keys before a refused line come
    first.
    """
    listed = [os.fsencode(argument) for argument in arguments]
    if (file is None) == (not listed):
        hint = "Use one of the two."
        raise InvalidInput("keys", None if file is None else "given twice", "arguments, or --keys FILE", hint)
    if column is not None and file is None:
        raise InvalidInput("--column", column, "a CSV file to take it from", "Pass --keys FILE.csv.")
    return iter([listed]) if file is None else _batches_in(file, column)


def _batches_in(name: str, column: str | None) -> Iterator[list[bytes]]:
    path = Path(name)
    try:
        with _opened(name) as stream:
            any_came = False
            for batch in _lines(stream) if column is None else _column(stream, column):
                any_came = any_came or bool(batch)
                yield batch
            if not any_came and path.is_fifo():
                hint = "Start the writer first, or use -."
                raise InvalidInput("--keys", name, "a pipe that a process writes to", hint)
    except OSError as error:
        raise unusable("--keys", path, error) from error


def _opened(name: str) -> BufferedReader:
    if name == "-":
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb")
    return os.fdopen(open_for_reading(Path(name), what="--keys"), "rb")


def _lines(stream: BufferedReader) -> Iterator[list[bytes]]:
    number, rest = 1, b""
    while chunk := stream.read1(CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from _checked([line.removesuffix(b"\r") for line in lines] if b"\r" in chunk else lines, number)
        number += len(lines)
        if len(rest) > MAX_KEY_BYTES + 1:  # the last byte may be a carriage return, which is not part of the key
            yield from _checked([rest], number)
    if rest:
        yield from _checked([rest.removesuffix(b"\r")], number)


def _checked(keys: list[bytes], number: int) -> Iterator[list[bytes]]:
    """Yield the keys; at a key that is too long, yield the keys before it and raise `InvalidInput`.

    The first key is in line `number`.
    """
    if keys and number == 1:
        _check_encoding(keys[0])
    if max(map(len, keys), default=0) <= MAX_KEY_BYTES:
        yield keys
        return
    place = next(place for place, key in enumerate(keys) if len(key) > MAX_KEY_BYTES)
    yield keys[:place]
    expected = f"a key of at most {MAX_KEY_BYTES} bytes"
    raise InvalidInput(f"line {number + place} of --keys", keys[place], expected, "Check that it is a file of keys.")


def _column(stream: BufferedReader, column: str) -> Iterator[list[bytes]]:
    csv.field_size_limit(MAX_KEY_BYTES)
    _check_encoding(stream.peek(3))
    rows = csv.reader(_bounded(stream), strict=True)
    try:
        header = next(rows, [])
        if column not in header:
            raise UnknownOption("--column", column, header)
        place = header.index(column)
        for row in rows:
            if len(row) <= place:
                expected, hint = f"{len(header)} as in the header", "Correct the line."
                raise InvalidInput(f"line {rows.line_num} of --keys", f"{len(row)} columns", expected, hint)
            yield [row[place].encode(errors="surrogateescape")]
    except csv.Error as error:
        raise InvalidInput(f"line {rows.line_num} of --keys", str(error), "CSV", "Correct the line.") from error


def _bounded(stream: BufferedReader) -> Iterator[str]:
    """Yield lines for the CSV reader. A line has at most 16 times the bytes of the longest allowed key."""
    limit = 16 * MAX_KEY_BYTES
    while line := stream.readline(limit + 1):
        if len(line) > limit:
            raise InvalidInput("line of --keys", line, f"at most {limit} bytes", "Check that it is a CSV file.")
        yield line.decode(errors="surrogateescape")


def _check_encoding(start: bytes) -> None:
    if start.startswith(BYTE_ORDER_MARKS):
        raise InvalidInput("--keys", start[:3], "UTF-8 without a byte order mark", "Save the file as plain UTF-8.")
