"""`apportion route`: which node handles each key."""

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Annotated

from cyclopts import Parameter

from apportion.console.files.key_stream import Column, KeysFile, batches_of
from apportion.console.options.arguments import Json
from apportion.console.options.placement import PlacementOptions
from apportion.console.print.output import FORMAT_VERSION, key_member
from apportion.errors import InvalidInput
from apportion.placement.api import Placement
from apportion.placement.change import epoch_of
from apportion.placement.frozen import Frozen


def route(
    *arguments: Annotated[str, Parameter(name="KEY")],
    source: PlacementOptions = PlacementOptions(),  # noqa: B008 - a frozen value
    keys: KeysFile = None,
    column: Column = None,
    json: Json = False,
) -> None:
    """Print `key<TAB>node` for each key, in order.

    Parameters
    ----------
    arguments
        Keys to route; the bytes of the text are the key.
    keys
        File with one key per line, or - for standard input.
    """
    batches = batches_of(arguments, keys, column)
    placement = source.load_routed()
    if json:
        _print_json(batches, placement)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.writelines(_lines(batches, placement))
        sys.stdout.buffer.flush()


def _lines(batches: Iterable[list[bytes]], placement: Placement) -> Iterator[bytes]:
    """Yield the lines of each batch as one piece. A million keys make a few dozen batches."""
    endings = {node_id: f"\t{node_id}\n".encode() for node_id in placement.topology.ids}
    done = 0
    for batch in batches:
        broken = len(batch)
        if b"\n" in b"".join(batch):
            broken = next(place for place, key in enumerate(batch) if b"\n" in key)
        nodes = placement.route_many(batch[:broken])
        yield b"".join(chain.from_iterable(zip(batch, map(endings.__getitem__, nodes), strict=False)))
        done += broken
        if broken < len(batch):
            expected = f"one line (the {done} keys before it are printed)"
            raise InvalidInput(f"key {done + 1}", batch[broken], expected, "Use --json for keys with line breaks.")


def _print_json(batches: Iterable[list[bytes]], placement: Placement) -> None:
    """Print each route as its key arrives, because the whole object may be larger than memory."""
    epoch = placement.saved.epoch if isinstance(placement, Frozen) else epoch_of(placement)
    head = {"format_version": FORMAT_VERSION, "command": "route", "epoch": str(epoch)}
    print(json.dumps(head)[:-1] + ', "routes": [', end="")
    separator = "\n"
    for batch in batches:
        for key, node_id in zip(batch, placement.route_many(batch), strict=True):
            print(separator + json.dumps({**key_member(key), "node": node_id}, ensure_ascii=False), end="")
            separator = ",\n"
    print("\n]}")
