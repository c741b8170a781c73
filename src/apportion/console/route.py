"""`apportion route`: which node handles each key."""

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Annotated

from cyclopts import Parameter

from apportion.console.files.key_stream import Column, KeysFile, batches_of
from apportion.console.options.arguments import Json, whole
from apportion.console.options.placement import PlacementOptions
from apportion.console.print.output import FORMAT_VERSION, key_member
from apportion.console.print.progress import Progress
from apportion.errors import InvalidInput, NotEnoughNodes, shown
from apportion.placement.api import Placement
from apportion.placement.frozen import Frozen
from apportion.placement.plans import epoch_of

WAYS_OUT = {
    "in distinct zones": "Ask for fewer, or add zones to the topology file.",
    "on distinct nodes": "Ask for fewer, or add nodes.",
}


def route(
    *arguments: Annotated[str, Parameter(name="KEY")],
    source: PlacementOptions = PlacementOptions(),  # noqa: B008 - a frozen value
    keys: KeysFile = None,
    column: Column = None,
    replicas: Annotated[int | None, Parameter(converter=whole)] = None,
    json: Json = False,
) -> None:
    """Print `key<TAB>node` for each key, in order. With `--replicas`, more nodes follow.

    Parameters
    ----------
    arguments
        Keys to route, as the bytes of these texts.
    keys
        File with one key per line, or - for standard input.
    replicas
        Nodes to print for each key: its preference list, the owner first.
    """
    if replicas is not None and replicas < 1:
        raise InvalidInput(
            "--replicas", replicas, "a number of nodes from 1", "Leave the option out to print only the owner."
        )
    batches = _watched(batches_of(arguments, keys, column), keys)
    # On a terminal, the lines of the keys themselves show that the command works.
    with Progress("routing", "keys", is_shown=not json and not sys.stdout.isatty()) as progress:
        placement = source.load_routed()
        if json:
            _print_json(batches, placement, replicas)
        else:
            sys.stdout.flush()
            sys.stdout.buffer.writelines(_lines(progress.batches(batches), placement, replicas))
            sys.stdout.buffer.flush()
    source.warn_of_keys(arguments)


def _watched(batches: Iterable[list[bytes]], file: str | None) -> Iterator[list[bytes]]:
    """Yield the batches; tell on standard error if they hold no key."""
    any_came = False
    for batch in batches:
        any_came = any_came or bool(batch)
        yield batch
    if not any_came:
        print(f"note: --keys is {shown(file)}, which holds no key.\nCheck the file, or its writer.", file=sys.stderr)


def _lines(batches: Iterable[list[bytes]], placement: Placement, replicas: int | None) -> Iterator[bytes]:
    """Yield the lines of each batch as one piece. A million keys make a few dozen batches."""
    endings = {node_id: f"\t{node_id}\n".encode() for node_id in placement.topology.ids}
    done = 0
    for batch in batches:
        broken = len(batch)
        if b"\n" in b"".join(batch):
            broken = next(place for place, key in enumerate(batch) if b"\n" in key)
        owners: Iterable[bytes]
        if replicas is None:
            owners = map(endings.__getitem__, placement.route_many(batch[:broken]))
        else:
            owners = (
                ("\t" + "\t".join(nodes) + "\n").encode() for nodes in _lists(batch[:broken], placement, replicas)
            )
        yield b"".join(chain.from_iterable(zip(batch, owners, strict=False)))
        done += broken
        if broken < len(batch):
            expected = f"one line (the {done} keys before it are printed)"
            raise InvalidInput(f"key {done + 1}", batch[broken], expected, "Use --json for keys with line breaks.")


def _lists(keys: Iterable[bytes], placement: Placement, replicas: int) -> Iterator[tuple[str, ...]]:
    """Yield the preference list of each key, one at a time."""
    try:
        for key in keys:
            yield placement.preference(key, replicas)
    except NotEnoughNodes as error:
        error.hint = WAYS_OUT.get(error.rule, "Ask for fewer, or use --placement ring, which ranks all nodes.")
        raise


def _print_json(batches: Iterable[list[bytes]], placement: Placement, replicas: int | None) -> None:
    """Print each route as its key arrives, because the whole object may be larger than memory."""
    epoch = placement.saved.epoch if isinstance(placement, Frozen) else epoch_of(placement)
    head = {"format_version": FORMAT_VERSION, "command": "route", "epoch": str(epoch)}
    print(json.dumps(head)[:-1] + ', "routes": [', end="")
    separator = "\n"
    for batch in batches:
        for key, members in zip(batch, _members(batch, placement, replicas), strict=True):
            print(separator + json.dumps({**key_member(key), **members}, ensure_ascii=False), end="")
            separator = ",\n"
    print("\n]}")


def _members(batch: list[bytes], placement: Placement, replicas: int | None) -> Iterable[dict[str, object]]:
    """Return the nodes of each key as members of JSON."""
    if replicas is None:
        return ({"node": node_id} for node_id in placement.route_many(batch))
    return ({"node": nodes[0], "nodes": nodes} for nodes in _lists(batch, placement, replicas))
