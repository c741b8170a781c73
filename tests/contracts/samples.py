"""A sample of every placement on a topology: what the contracts are checked on, one factory a placement.

Most placements are made of nodes alone. Slots take an assignment. What takes explicit data is given data made from the
topology by a small ring, so that the data themselves change with cause only; `follow` writes the next data as the docs
advise, first giving away what leaving nodes have, and then goes on to the next topology by `on`.
"""

from zlib import crc32

from apportion import Assignment, Ring, Topology, balance, placement
from apportion.placement.hashers import position_of
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.layouts.redis_slots import SLOTS

NAMES = [f"tenant-{number}" for number in range(3000)]
TOKENS_OF_A_NODE = 40
WHOLE_WEIGHTS = {"envoy", "envoy_maglev", "ketama", "nginx"}
TEXT_ONLY = {"composite", "ranges"}
"""Placements that refuse ints for keys, by the order that they promise or by the form that they read."""


def start(spec, topology):
    """Return the placement of a spec on a topology."""
    make = _FACTORIES.get(spec.name, _of_assignment if spec.takes == "assignment" else _of_nodes)
    return make(spec, topology)


def follow(spec, old, topology):
    """Return the placement that comes after another when the topology changes."""
    if spec.takes == "assignment":
        return spec(balance.slots(topology, previous=old.assignment))
    return _FOLLOWERS.get(spec.name, lambda _, old, topology: old.on(topology))(spec, old, topology)


def key_of(spec, name):
    """Return a key that a placement reads, made of a text."""
    return f"{name}|{crc32(name.encode()) % 10**6}" if spec.name == "composite" else name


def keys_of(spec):
    """Return the keys that a placement is asked for."""
    return [key_of(spec, name) for name in NAMES]


def unit_of(spec):
    """Return the ordinary node's weight: 10 where weights are whole, so that a tenth of it is a weight."""
    return 10 if spec.name in WHOLE_WEIGHTS else 1


def position(built, key):
    """Return where a key stands in the placement's table."""
    hasher = getattr(built, "hasher", None)
    return key_bytes(key) if hasher is None else position_of(hasher)(key_bytes(key))


def assignment_of(spec, topology):
    """Return an assignment as the spec takes it, each slot another owner than the one before."""
    slots = SLOTS if spec.name == "redis_slots" else 32 * len(topology)
    return Assignment(topology=topology, rows=tuple((slot % len(topology),) for slot in range(slots)))


def _of_nodes(spec, topology):
    return spec(topology)


def _of_assignment(spec, topology):
    return spec(balance.slots(topology, count=SLOTS if spec.name == "redis_slots" else None))


def _owners(topology):
    """Return a ring that names the listed owners; it changes with cause only, and knows no weights."""
    return Ring([node.id for node in topology if node.weight > 0], vnodes=TOKENS_OF_A_NODE)


def _staying(old, topology):
    """Return the nodes that own something before and after."""
    return [node for node in old.topology if node.weight > 0 and node.id in topology and topology[node.id].weight > 0]


def _cassandra(spec, topology):
    return spec(topology, tokens={node_id: _tokens(node_id) for node_id in topology.ids})


def _next_cassandra(spec, old, topology):
    if set(topology.ids) <= set(old.topology.ids):
        return old.on(topology)
    return spec(topology, tokens={**{node_id: _tokens(node_id) for node_id in topology.ids}, **old.tokens})


def _tokens(node_id):
    return [placement.cassandra.token(f"{node_id}/{number}") for number in range(TOKENS_OF_A_NODE)]


def _ranges(spec, topology, nodes=None):
    nodes = nodes or topology
    starts = sorted(NAMES)[:: 1 if len(nodes) > 100 else 30]  # the more nodes, the more ranges
    return spec(nodes, bounds=starts[1:], owners=_owners(topology).route_many(starts))


def _next_ranges(spec, old, topology):
    return _ranges(spec, topology, _both(old, topology)).on(topology)


def _both(old, topology):
    """Return the nodes of two topologies, those of the later one as they are there unless they drain."""
    later = [node for node in topology if node.weight > 0 or node.id not in old.topology]
    return Topology([*later, *(node for node in old.topology if node.id not in {each.id for each in later})])


def _lists(spec, topology, nodes=None):
    ring = _owners(topology)
    values = {node_id: [] for node_id in ring.topology.ids}
    for name in NAMES:
        values[ring.route(name)].append(name)
    return spec(nodes or topology, values=values, default=ring.topology.ids[0])


def _next_lists(spec, old, topology):
    return _lists(spec, topology, _both(old, topology)).on(topology)


def _exceptions(topology):
    ring = _owners(topology)
    return {name: ring.route(f"other {name}") for name in NAMES[100:160]}


def _directory(spec, topology):
    return spec(Ring(topology), exceptions=_exceptions(topology))


def _next_directory(spec, old, topology):
    return spec(old.base, exceptions=_exceptions(Topology(_staying(old, topology)))).on(topology)


def _composite(spec, topology):
    return spec(Ring(topology), width=3, period_seconds=60)


_FACTORIES = {
    "cassandra": _cassandra, "composite": _composite, "directory": _directory, "lists": _lists, "ranges": _ranges,
}  # fmt: skip
_FOLLOWERS = {
    "cassandra": _next_cassandra, "directory": _next_directory, "lists": _next_lists, "ranges": _next_ranges,
}  # fmt: skip
