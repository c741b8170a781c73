"""The table of Envoy's load balancer `maglev`, to the bit: hosts take turns to fill slots; a key's hash picks one.

Promises: the host that Envoy would take for a hash policy of one value, while all hosts of one priority are healthy.
With equal weights, shares are even to one slot.
Refuses: preference lists (Envoy hashes anew for a retry, and may meet the same host), fractional weights, locality
weights, `hash_balance_factor`, and more hosts than slots.
It does not promise minimal disruption: a change of one host also moves some slots of other hosts. A larger table has
fewer such moves. Take `ring` or `rendezvous` if you are free to choose.

Format: `docs/algorithms/envoy_maglev.md`.
Source: Envoy, source/extensions/load_balancing_policies/maglev; after Eisenbud et al. 2016.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapreplace

from apportion import native
from apportion.errors import InvalidInput
from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.model.topology import Node
from apportion.placement.api import Nodes, PlacementSpec, topology_of
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import get
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.layouts.circle import owning_nodes
from apportion.placement.layouts.envoy import host_shares
from apportion.placement.maglev import check_size
from apportion.placement.shapes.computed import Computed
from apportion.placement.shapes.rebuilt import Rebuilt

DEFAULT_SLOTS = 65_537
MOST_SLOTS = 5_000_011
_SIZE_HINT = f"Envoy takes {DEFAULT_SLOTS} by default; more than 100 slots per host keep disruption low."


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class EnvoyMaglev(Rebuilt, Computed):
    """The hosts of a cluster over `table_size` slots. Build: O(slots · log slots). Lookup: O(1).

    Memory: 4 bytes per slot. A node's id is the text that Envoy hashes for a host, as in `envoy`. A draining node is
    not a host.

    >>> cluster = EnvoyMaglev(["10.0.0.1:80", "10.0.0.2:80"])
    >>> cluster.route("tenant-42"), cluster.slot("tenant-42")
    ('10.0.0.1:80', 2973)
    """

    _OPTIONS = ("table_size",)

    table_size: int
    _slots: "array[int]" = field(compare=False)

    def __init__(self, nodes: Nodes, *, table_size: int = DEFAULT_SLOTS) -> None:
        check_size(table_size, MOST_SLOTS, _SIZE_HINT)
        topology = topology_of(nodes)
        hosts = owning_nodes(topology, "Envoy")
        if len(hosts) > table_size:
            raise InvalidInput("hosts", len(hosts), f"at most table_size = {table_size}", "Raise table_size.")
        self._fill(topology, get("xxh64"))
        object.__setattr__(self, "table_size", table_size)
        indexes = array("I", (topology.index(host.id) for host in hosts))
        object.__setattr__(self, "_slots", array("I", (indexes[turn] for turn in _turns(hosts, table_size))))

    def slot(self, key: Key) -> int:
        """Return the slot of a key; it depends only on the key and the size of the table. O(length)."""
        return self._hash(key_bytes(key)) % self.table_size

    def explain(self, key: Key) -> Explanation:
        """Return the slot of a key and its owner. The next owner depends on a new table: ask `on`. O(length)."""
        slot, owner = self.slot(key), self.route(key)
        return Explanation(
            key=key,
            placement="envoy_maglev",
            hasher=self.hasher.label,
            hash=self._hash(key_bytes(key)),
            owner=owner,
            why=f"hash % {self.table_size} = slot {slot}, which {owner} took; "
            f"if {owner} left, all slots would be dealt anew",
        )

    def _make_twin(self) -> "native.extension.Chooser":
        return native.extension.Chooser.modulo(self.topology.ids, self.hasher, self._slots)

    def _owner(self, key_hash: int) -> int:
        return self._slots[key_hash % self.table_size]


def _turns(hosts: Sequence[Node], size: int) -> "array[int]":
    """Return the number of the host that takes each slot.

    A heap holds the next turns, so a round costs nothing for a host that has no turn in it.
    """
    from xxhash import xxh64_intdigest  # noqa: PLC0415 - loaded at its first use, like every hash function

    places = [xxh64_intdigest(host.id.encode()) % size for host in hosts]
    skips = [xxh64_intdigest(host.id.encode(), seed=1) % (size - 1) + 1 for host in hosts]
    shares, targets = host_shares(hosts), [0.0] * len(hosts)
    largest = max(shares)
    taken = array("i", [-1]) * size
    due = [(1, turn) for turn in range(len(hosts))]
    for _ in range(size):
        number, turn = due[0]
        place, skip = places[turn], skips[turn]
        while taken[place] >= 0:
            place = (place + skip) % size
        taken[place] = turn
        places[turn] = (place + skip) % size
        targets[turn] += largest
        heapreplace(due, (_next_round(number, shares[turn], targets[turn]), turn))
    return taken


def _next_round(number: int, share: float, target: float) -> int:
    """Return the first round after `number` in which a host with this share has its turn."""
    later = max(number + 1, int(target / share) - 1)  # the quotient may be rounded: begin one before it
    while later * share < target:
        later += 1
    return later


SPEC = PlacementSpec(
    name="envoy_maglev",
    build=EnvoyMaglev,
    source="Envoy, source/extensions/load_balancing_policies/maglev",
    weighted=True,
    lookup="O(1)",
)
