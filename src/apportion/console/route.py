"""`apportion route`: which node handles each key."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

from cyclopts import Parameter

from apportion.console.key_stream import KeysFile, keys_of
from apportion.console.output import FORMAT_VERSION, key_member
from apportion.console.source import Source
from apportion.console.table_answers import TableAnswers
from apportion.errors import InvalidInput
from apportion.model.epoch import Epoch
from apportion.placement.change import epoch_of


def route(
    *arguments: Annotated[str, Parameter(name="KEY")],
    source: Source = Source(),  # noqa: B008 - a frozen value
    keys: KeysFile = None,
    column: str | None = None,
    json: bool = False,
) -> None:
    """Print `key<TAB>node` for each key, in order.

    Parameters
    ----------
    arguments
        Keys to route; each is the bytes of its text.
    keys
        File with one key a line, or - for standard input.
    column
        Take the keys from this column of a CSV file with a header.
    json
        Print one JSON object instead.
    """
    stream = keys_of(arguments, keys, column)
    lookup, epoch = _router(source)
    if json:
        _print_json(stream, lookup, epoch)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(_lines(stream, lookup))
        sys.stdout.buffer.flush()


def _router(source: Source) -> tuple[Callable[[bytes], str], Epoch]:
    if source.table is None:
        placement = source.load_placement()
        return placement.route, epoch_of(placement)
    table = source.load_table()
    return TableAnswers(table, source.load_position_hasher(table)).route, table.epoch


def _lines(stream: Iterable[bytes], lookup: Callable[[bytes], str]) -> Iterator[bytes]:
    for number, key in enumerate(stream, 1):
        if b"\n" in key:
            expected = f"one line (the {number - 1} keys before it are printed)"
            raise InvalidInput(f"key {number}", key, expected, "Use --json for keys with line breaks.")
        yield b"%b\t%b\n" % (key, lookup(key).encode())


def _print_json(stream: Iterable[bytes], lookup: Callable[[bytes], str], epoch: Epoch) -> None:
    """Print as the keys come: the object may be larger than memory."""
    head = {"format_version": FORMAT_VERSION, "command": "route", "epoch": str(epoch)}
    print(json.dumps(head)[:-1] + ', "routes": [', end="")
    separator = "\n"
    for key in stream:
        print(separator + json.dumps({**key_member(key), "node": lookup(key)}, ensure_ascii=False), end="")
        separator = ",\n"
    print("\n]}")
