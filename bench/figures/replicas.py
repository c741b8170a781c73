"""Three distinct replicas of a key in 100 nodes, 150 tokens each; the loop around the calls is in all of them.

uhashring walks its ring too; tooz gives a set, in no order. In zones the three are of three zones of ten, which no peer
can do: information.
"""

from collections.abc import Callable, Collection
from functools import partial

from apportion import Node, Ring
from bench import implementation
from bench.clock import race, spread
from bench.contender import NotSane
from bench.fleet import contiguous_keys, node_names
from bench.goal import at_most
from bench.peers import TEXTBOOK, TOOZ, UHASHRING
from bench.peers.textbook import TextbookRing
from bench.peers.tooz import replicas as tooz_replicas
from bench.peers.uhashring import replicas as uhashring_replicas
from bench.row import Row, native_row, not_measured

NODES, COUNT, ZONES = 100, 3, 10
KEYS, KEYS_OF_REFERENCE = 10_000, 500
ROUNDS = 7
GOAL = at_most(250, "ns")
OURS, OURS_IN_ZONES = "ring", f"ring, in {ZONES} zones"

Replicas = Callable[[str, int], Collection[str]]
"""What names so many distinct nodes of a key."""


def rows() -> list[Row]:
    """Race the walks over the same keys."""
    names, keys = node_names(NODES), contiguous_keys(_key_count())
    walks = _walks(names)
    for name, replicas in walks.items():
        _check(name, replicas, keys)
    times = race({name: partial(_each, replicas, keys) for name, replicas in walks.items()}, rounds=ROUNDS)
    found = [_row(name, times_ns) for name, times_ns in times.items()]
    return found + [not_measured(_name(peer.name), peer.absent) for peer in (TOOZ, UHASHRING) if peer.absent]


def _walks(names: list[str]) -> dict[str, Replicas]:
    in_zones = Ring([Node(name, zone=(f"zone-{number % ZONES}",)) for number, name in enumerate(names)])
    walks: dict[str, Replicas] = {
        TEXTBOOK.name: TextbookRing(names).get_nodes,
        OURS: Ring(names).preference,
        OURS_IN_ZONES: in_zones.preference,
    }
    if not UHASHRING.absent:
        walks[UHASHRING.name] = uhashring_replicas(names)
    if not TOOZ.absent:
        walks[TOOZ.name] = tooz_replicas(names)
    return walks


def _row(name: str, times_ns: list[int]) -> Row:
    call_ns = spread(times_ns, calls=_key_count())
    return native_row(_name(name), call_ns.median, call_ns.shown("ns", digits=0), GOAL if name == OURS else None)


def _key_count() -> int:
    """Return how many keys a round has: enough that they find the table in the processor's caches."""
    return KEYS if implementation.is_native() else KEYS_OF_REFERENCE


def _name(contender: str) -> str:
    return f"{COUNT} distinct replicas, {NODES} nodes: {contender}"


def _each(replicas: Replicas, keys: list[str]) -> None:
    for key in keys:
        replicas(key, COUNT)


def _check(name: str, replicas: Replicas, keys: list[str]) -> None:
    if any(len(set(replicas(key, COUNT))) != COUNT for key in keys[:1000]):
        raise NotSane(f"{name} names fewer than {COUNT} distinct nodes")
