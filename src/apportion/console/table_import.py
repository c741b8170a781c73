"""Table import: CSV of ranges, or the output of a cluster, as a table.

Promises: the output of a cluster becomes the table of the placement that the cluster uses, so keys route as in the
cluster. Notes name the facts that a table cannot hold: addresses, nodes that are down, slots that are moving.
Refuses: options for nodes or a hash function if the format has its own, and an option that the format does not use.
It refuses tokens that do not fit into a table, and more replicas than a datacenter has nodes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from apportion.console.files.ranges_csv import read_ranges
from apportion.console.files.readers.memcached import read_memcached
from apportion.console.files.readers.nodetool import TokenRing, read_token_ring
from apportion.console.files.readers.redis_cluster import RedisCluster, read_cluster_nodes
from apportion.console.options.hasher import Hashing
from apportion.console.options.nodes import NodesSource
from apportion.errors import InvalidInput, UnknownOption
from apportion.model.table import Table
from apportion.placement.layouts.cassandra import Cassandra, NetworkTopologyStrategy, SimpleStrategy
from apportion.placement.layouts.cassandra import ring as cassandra
from apportion.placement.layouts.cassandra.strategies import Strategy
from apportion.placement.layouts.cassandra.tokens import LEAST_MURMUR3
from apportion.placement.layouts.ketama import Ketama
from apportion.placement.layouts.redis_slots import RedisSlots
from apportion.placement.shapes.circle import table_of_rows

MOST_MURMUR3 = 2**63 - 1


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Reading:
    """The format of the file, and the states to accept."""

    format: Annotated[str, Parameter(help="csv, memcached, nodetool-describering, nodetool-ring or redis-cluster.")] = (
        "csv"
    )
    replication: Annotated[
        str | None, Parameter(help="For nodetool-ring: replicas, such as 3 or dc1=3,dc2=2 (default: only the owner).")
    ] = None
    accept_suspected: Annotated[
        bool, Parameter(help="For redis-cluster: count owners in the state fail? as up.", negative="")
    ] = False
    accept_migrating: Annotated[
        bool, Parameter(help="For redis-cluster: leave moving slots with their present owner.", negative="")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A table, and notes on the facts that it cannot hold."""

    table: Table
    notes: tuple[str, ...] = ()


def imported(path: Path, reading: Reading, nodes: NodesSource, hashing: Hashing) -> Imported:
    """Return the table of a file; refuse options that its format does not use."""
    if reading.format not in _FORMATS:
        raise UnknownOption("--format", reading.format, _FORMATS)
    read, takes = _FORMATS[reading.format]
    given = {
        "--nodes": nodes.nodes,
        "--topology": nodes.topology,
        "--hasher": hashing.hasher,
        "--hasher-key-file": hashing.hasher_key_file,
        "--replication": reading.replication,
        "--accept-suspected": reading.accept_suspected or None,
        "--accept-migrating": reading.accept_migrating or None,
    }
    for option, value in given.items():
        if value is not None and option not in takes:
            raise InvalidInput(option, str(value), f"no value, with --format {reading.format}", _why_not(option))
    return read(path, reading) if read else _of_ranges(path, nodes, hashing)


def _why_not(option: str) -> str:
    if option in _OF_CSV:
        return "Leave it out: the file names the nodes, and the system prescribes its hash function."
    taker = next(name for name, (_, takes) in _FORMATS.items() if option in takes)
    return f"Leave it out, or pass --format {taker}."


def _of_ranges(path: Path, nodes: NodesSource, hashing: Hashing) -> Imported:
    ranges, hasher = read_ranges(path), hashing.load_position_hasher()
    return Imported(table=Table.from_ranges(ranges, topology=nodes.load_topology(), hasher=hasher.label))


def _of_memcached(path: Path, _: Reading) -> Imported:
    return Imported(table=Ketama(read_memcached(path), layout="libmemcached").table())


def _of_redis(path: Path, reading: Reading) -> Imported:
    found = read_cluster_nodes(
        path, accept_suspected=reading.accept_suspected, accept_migrating=reading.accept_migrating
    )
    return Imported(table=RedisSlots(found.assignment).table(), notes=(*_owner_notes(found), *_slot_notes(found)))


def _owner_notes(found: RedisCluster) -> tuple[str, ...]:
    """Return a line per owner with its address, because people cannot read Redis's ids."""
    return tuple(
        f"{node_id} is {found.addresses[node_id]}; slots: {load}, replicas: {len(found.replicas[node_id])}"
        for node_id, load in found.assignment.loads.items()
    )


def _slot_notes(found: RedisCluster) -> tuple[str, ...]:
    return tuple(
        f"slot {slot} is moving to {other}; here it stays with its present owner"
        for slot, other in found.migrating.items()
    )


def _of_token_ring(path: Path, reading: Reading) -> Imported:
    found = _token_ring(path, reading)
    strategy = SimpleStrategy(1) if reading.replication is None else _strategy(reading.replication)
    cluster = Cassandra(found.topology, tokens=found.tokens, strategy=strategy)
    for name, missing in cluster.missing.items():
        wanted = dict(strategy.replicas)[name] if isinstance(strategy, NetworkTopologyStrategy) else strategy.replicas
        where = f" in {name}" if isinstance(strategy, NetworkTopologyStrategy) else ""
        expected = f"at most {wanted - missing}, the number of nodes there"
        hint = "Lower the number: Cassandra also places at most one replica per node."
        raise InvalidInput(f"--replication{where}", wanted, expected, hint)
    return Imported(table=cluster.replica_table(), notes=_ring_notes(found))


def _of_describering(path: Path, reading: Reading) -> Imported:
    found = _token_ring(path, reading)
    index = found.topology.index
    rows = {token - LEAST_MURMUR3: tuple(map(index, owners)) for token, owners in found.replicas.items()}
    table = table_of_rows(rows, found.topology, cassandra.HASHER.label)
    return Imported(table=table, notes=_ring_notes(found))


def _token_ring(path: Path, reading: Reading) -> TokenRing:
    found = read_token_ring(path)
    printed_by = "nodetool-describering" if found.replicas else "nodetool-ring"
    if printed_by != reading.format:
        raise InvalidInput("--format", reading.format, f"{printed_by}, the format of this file", "Pass that format.")
    for node_id, own in found.tokens.items():
        if own[-1] > MOST_MURMUR3:
            expected = "one of Murmur3Partitioner, in -2**63 .. 2**63 - 1"
            hint = "Tokens of RandomPartitioner do not fit into a table: ask placement.cassandra.replicas_of in Python."
            raise InvalidInput(f"token of node {node_id!r}", own[-1], expected, hint)
    return found


def _ring_notes(found: TokenRing) -> tuple[str, ...]:
    return tuple(f"{node_id} is not up, but still owns its tokens" for node_id in found.not_up)


def _strategy(text: str) -> Strategy:
    """Return the strategy from its text: 3, or dc1=3,dc2=2."""
    hint = "Write it as the keyspace has it: 3 for SimpleStrategy, dc1=3,dc2=2 for NetworkTopologyStrategy."
    if "=" not in text:
        return SimpleStrategy(_count(text, text, hint))
    replicas: dict[str, int] = {}
    for entry in text.split(","):
        name, _, count = entry.rpartition("=")
        if not name or name in replicas:
            raise InvalidInput("--replication", text, "DATACENTER=REPLICAS, each datacenter once", hint)
        replicas[name] = _count(count, text, hint)
    return NetworkTopologyStrategy(replicas)


def _count(digits: str, text: str, hint: str) -> int:
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 10):
        raise InvalidInput("--replication", text, "whole numbers of replicas", hint)
    return int(digits)


Reader: TypeAlias = Callable[[Path, Reading], Imported]

_OF_CSV = frozenset(("--nodes", "--topology", "--hasher", "--hasher-key-file"))
_FORMATS: dict[str, tuple[Reader | None, frozenset[str]]] = {
    "csv": (None, _OF_CSV),
    "memcached": (_of_memcached, frozenset()),
    "nodetool-describering": (_of_describering, frozenset()),
    "nodetool-ring": (_of_token_ring, frozenset(("--replication",))),
    "redis-cluster": (_of_redis, frozenset(("--accept-suspected", "--accept-migrating"))),
}
"""For each format: its reader, and the options that it uses."""
