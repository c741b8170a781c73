"""Maglev hashing: nodes take turns to fill a table of fixed size; a key's hash picks an entry of it.

Promises: a lookup is one memory access, however many nodes there are. With equal weights, shares are even to one
entry. With unequal weights, a node of weight w owns r * w / W entries after r rounds, rounded up. Here W is the
largest weight, and the last round is cut short. So every node with a weight above 0 owns an entry. Plans are exact.
Refuses: more nodes than entries. It does not promise minimal disruption: a change of one node also moves some entries
of other nodes. A plan shows them exactly as `stray_ratio`. A larger table has fewer such moves: below 100
`entries_per_node`, take a larger `table_size`. The size is part of the format: choose it for the largest fleet.

Format: `docs/algorithms/maglev.md`.
Source: Eisenbud et al. 2016.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapreplace
from math import isqrt

from apportion import native
from apportion.errors import InvalidInput, NoNodes
from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.model.table import MAX_TOKENS, Table
from apportion.model.token import POSITIONS, KeyRange, slot_start
from apportion.model.topology import Node, Topology
from apportion.placement.api import Nodes, PlacementSpec, topology_of
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import DEFAULT, Digest, Hasher, resolve
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.shapes.computed import Computed
from apportion.placement.shapes.rebuilt import Rebuilt
from apportion.placement.spread import Spread, spread_rule

DEFAULT_ENTRIES = 65_537
_SIZE_HINT = f"The default is {DEFAULT_ENTRIES}; 655373 and 6553621 are prime too. Take 100 entries per node or more."


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Maglev(Rebuilt, Computed):
    """A table of `table_size` entries. Build: O(entries · log entries). Lookup: O(1). Memory: 4 bytes per entry.

    >>> maglev = Maglev(["a", "b", "c"])
    >>> maglev.route("tenant-42"), maglev.preference("tenant-42", 2), maglev.entries_per_node
    ('a', ('a', 'b'), 21845)
    """

    _OPTIONS = ("table_size", "hasher")

    table_size: int
    _entries: "array[int]" = field(compare=False)

    def __init__(self, nodes: Nodes, *, table_size: int = DEFAULT_ENTRIES, hasher: str | Hasher = DEFAULT) -> None:
        check_size(table_size, MAX_TOKENS, _SIZE_HINT)
        topology, chosen = topology_of(nodes), resolve(hasher, least_bits=64)
        _check_nodes(topology, table_size)
        self._fill(topology, chosen)
        object.__setattr__(self, "table_size", table_size)
        object.__setattr__(self, "_entries", _filled(topology, table_size, chosen.digest))

    @property
    def entries_per_node(self) -> int:
        """Entries for each node that owns any, rounded down. Fewer entries mean more stray keys in a change."""
        return self.table_size // sum(node.weight > 0 for node in self.topology)

    def _make_twin(self) -> "native.extension.Chooser":
        return native.extension.Chooser.entries(self.topology.ids, self.hasher, self._entries)

    def _owner(self, key_hash: int) -> int:
        return self._entries[key_hash * self.table_size >> 64]

    def preference(
        self, key: Key, count: int, *, spread_level: int | None = None, spread: Spread = "strict"
    ) -> tuple[str, ...]:
        """Return the owner and the nodes met after it in the table, each zone once. O(nodes + entries walked).

        The list is not a forecast: when a node leaves, the table is filled anew.
        """
        rule = spread_rule(self.topology, count, level=spread_level, spread=spread)
        return tuple(self.topology.ids[index] for index in rule.pick(self._walk(self._entry(key))))

    def table(self, replicas: int = 1, *, spread_level: int | None = None, spread: Spread = "strict") -> Table:
        """Return the entries as a table of the preference lists of `replicas` nodes. O(entries · entries walked)."""
        rule = spread_rule(self.topology, replicas, level=spread_level, spread=spread)
        walked = (rule.pick(self._walk(entry)) for entry in range(self.table_size))
        return Table(
            topology=self.topology,
            hasher=self.hasher.label,
            starts=tuple(slot_start(entry, self.table_size) for entry in range(self.table_size)),
            rows=tuple(((index,) for index in self._entries) if replicas == 1 else walked),
        )

    def explain(self, key: Key) -> Explanation:
        """Return the entry of a key, its owner, and the nodes met after it. O(nodes + entries walked)."""
        entry = self._entry(key)
        owner, *others = (self.topology.ids[index] for index in self._walk(entry))
        return Explanation(
            key=key,
            placement="maglev",
            hasher=self.hasher.label,
            hash=self._hash(key_bytes(key)),
            range=self._range(entry),
            owner=owner,
            why=f"entry {entry} of {self.table_size} ({self.entries_per_node} per node) went to {owner}; "
            f"if {owner} left, all entries would be filled anew",
            next=self.preference(key, min(3, len(others) + 1), spread="best-effort")[1:],
        )

    def _entry(self, key: Key) -> int:
        return self._hash(key_bytes(key)) * self.table_size >> 64

    def _walk(self, entry: int) -> Iterator[int]:
        """Yield every owner once, in the order of their entries, starting at one entry."""
        waiting = {index for index, node in enumerate(self.topology) if node.weight > 0}
        for place in range(entry - self.table_size, entry):  # negative places count from the end: one full turn
            index = self._entries[place]
            if index in waiting:
                yield index
                waiting.remove(index)
                if not waiting:
                    return

    def _range(self, entry: int) -> KeyRange:
        """Return the range of positions around an entry in which all entries have the same owner."""
        owner, first, after = self._entries[entry], entry, entry + 1
        while first > 0 and self._entries[first - 1] == owner:
            first -= 1
        while after < self.table_size and self._entries[after] == owner:
            after += 1
        end = POSITIONS if after == self.table_size else slot_start(after, self.table_size)
        return KeyRange(slot_start(first, self.table_size), end)


def _filled(topology: Topology, size: int, digest: Digest) -> "array[int]":
    """Return the index of the node that takes each entry.

    A heap holds the next turns, so a round costs nothing for a node that has no turn in it.
    """
    owning = [(index, node) for index, node in enumerate(topology) if node.weight > 0]
    places, skips = _preferences([node for _, node in owning], size, digest)
    weights = [node.millionths for _, node in owning]
    largest, turns = max(weights), [0] * len(owning)
    entries = array("l", [-1]) * size
    due = [(1, taker) for taker in range(len(owning))]
    for _ in range(size):
        _, taker = due[0]
        place, skip = places[taker], skips[taker]
        while entries[place] >= 0:
            place = (place + skip) % size
        entries[place] = owning[taker][0]
        places[taker] = (place + skip) % size
        turns[taker] += 1
        # This is the first round r with turns < r * weight / largest.
        heapreplace(due, (turns[taker] * largest // weights[taker] + 1, taker))
    return array("I", entries)


def _preferences(nodes: Sequence[Node], size: int, digest: Digest) -> tuple[list[int], list[int]]:
    """Return the offset and the skip of each node."""
    names = [node.id.encode() for node in nodes]
    labels = [b"maglev/1" + len(name).to_bytes(4, "little") + name for name in names]
    offsets = [digest(label + bytes(4)) * size >> 64 for label in labels]
    skips = [1 + (digest(label + b"\1\0\0\0") * (size - 1) >> 64) for label in labels]
    return offsets, skips


def check_size(table_size: int, most: int, hint: str) -> None:
    """Raise `InvalidInput` for a size that is no prime number up to `most`."""
    is_size = type(table_size) is int and 1 < table_size <= most
    if not is_size or any(table_size % divisor == 0 for divisor in range(2, isqrt(table_size) + 1)):
        raise InvalidInput("table_size", table_size, f"a prime number in 2 .. {most}", hint)


def _check_nodes(topology: Topology, table_size: int) -> None:
    owning = sum(node.weight > 0 for node in topology)
    if owning == 0:
        raise NoNodes("Maglev hashing")
    if owning > table_size:
        hint = "Raise table_size to a prime of 100 entries per node or more."
        raise InvalidInput("nodes of the table", owning, f"at most table_size = {table_size}", hint)


SPEC = PlacementSpec(
    name="maglev",
    build=Maglev,
    source="Eisenbud et al. 2016",
    weighted=True,
    ranked=True,
    tabular=True,
    lookup="O(1)",
)
