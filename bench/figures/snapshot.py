"""A snapshot of a table of 1000 nodes, 150 tokens each: how long until it routes; and it is always the same bytes.

`Frozen.load` lays it out for lookups. `decode` makes the table with all its rows as Python values, for information.
Each is timed by itself, since they are not compared: what one leaves in the processor's caches is no part of another.

The bytes are made by fresh processes, each with another seed for Python's own hashes, and compared by their digests.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial

from apportion import Ring, Table, decode, encode
from apportion.placement.frozen import Frozen
from bench.clock import race, spread
from bench.contender import NotSane
from bench.elsewhere import ROOT
from bench.fleet import equal_fleet
from bench.goal import at_most
from bench.row import Row, native_row

NODES = 1000
ROUNDS = 15
PROCESSES = 3
LOAD = at_most(3, "ms")
NAME = f"snapshot of a table, {NODES} nodes x 150"
PROGRAM = (
    "from bench.figures.snapshot import snapshot; from hashlib import sha256; print(sha256(snapshot()).hexdigest())"
)


def rows() -> list[Row]:
    """Load the same snapshot over and over; make it in several processes."""
    data, table = snapshot(), Ring(equal_fleet(NODES)).table()
    if decode(data, Table) != table or Frozen.load(data).saved != table:
        raise NotSane("a snapshot is loaded as another table than it was made of")
    turns: dict[str, Callable[[], object]] = {
        "load": partial(Frozen.load, data),
        "decode": partial(decode, data, Table),
        "save": partial(encode, table),
    }
    times = {name: race({name: turn}, rounds=ROUNDS)[name] for name, turn in turns.items()}
    load_ms, decode_ms, save_ms = (spread(times[name], calls=1_000_000) for name in turns)
    digests = {_digest(seed) for seed in range(PROCESSES)}
    return [
        native_row(f"{NAME}: load", load_ms.median, f"{load_ms.shown('ms')}, {len(data)} bytes", LOAD),
        Row(name=f"{NAME}: decode", value=decode_ms.median, shown=decode_ms.shown("ms")),
        Row(name=f"{NAME}: save", value=save_ms.median, shown=save_ms.shown("ms")),
        Row(
            name=f"{NAME}: as made by {PROCESSES} processes",
            value=len(digests),
            shown=f"{len(digests)} ({', '.join(sorted(digest[:16] for digest in digests))})",
            goal="= 1, the same bytes",
            met=len(digests) == 1,
        ),
    ]


def snapshot() -> bytes:
    """Return the bytes of the table."""
    return encode(Ring(equal_fleet(NODES)).table())


def _digest(seed: int) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
