"""Node and Topology: the possible owners, their zones, and the weight of each.

Promises: a topology never changes. A change makes the next topology, and does not affect code that routes by the old
one. Nodes are sorted by id, and every index in this library refers to that order. An invalid node cannot exist.
Refuses: to know whether a node is up now, and to know addresses (an id is a name).
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice, pairwise, repeat
from numbers import Integral, Real
from operator import attrgetter
from typing import Self

from apportion.errors import BadWeight, DuplicateNode, InvalidInput, UnknownNode, shown
from apportion.errors.brief import brief
from apportion.model.epoch import Epoch, check_number, content_digest

MAX_NODES = 100_000
MAX_NAME_BYTES = 255
MAX_ZONE_LEVELS = 8
MAX_WEIGHT = 1e9
MIN_WEIGHT = 1e-6


@brief
@dataclass(frozen=True, slots=True)
class Node:
    """A possible owner: its id, the path of its fault domains (outermost first), and its weight.

    A weight is 0, or in 1e-6 .. 1e9. A node of weight 0 drains: it should own nothing, and remains a source of copies.
    Weights are rounded to millionths, so that shares are counted in integers. Ids are compared without conversion: case
    matters, and two Unicode spellings of one letter are two ids.

    >>> Node("db-03", zone=("eu", "rack3"), weight=2)
    Node(id='db-03', zone=('eu', 'rack3'), weight=2.0)
    """

    id: str
    _: KW_ONLY
    zone: tuple[str, ...] = ()
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_name("node id", self.id)
        if type(self.zone) is not tuple or self.zone:  # an array would not compare with a tuple
            object.__setattr__(self, "zone", _checked_zone(self.zone))
        if type(self.weight) is not float or self.weight != 1:
            object.__setattr__(self, "weight", _checked_weight(self.id, self.weight))

    @property
    def millionths(self) -> int:
        """The weight as an integer; every decision about an owner uses this number."""
        return round(self.weight * 1_000_000)

    def fault_domain(self, level: int | None = None) -> Hashable:
        """Return the value that two nodes share if they fail together: the zone path, or its levels 0 .. `level`.

        A node without a zone is a fault domain by itself.
        """
        return (self.zone if level is None else self.zone[: level + 1]) or self.id


# These setters set the fields of a frozen node that is made without its constructor.
_set_id, _set_zone, _set_weight = (Node.__dict__[name].__set__ for name in ("id", "zone", "weight"))
_id_of = attrgetter("id")


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Topology:
    """All nodes at one epoch, sorted by id. Equality compares the cluster name and the nodes, not the number.

    `nodes` holds `Node`s or ids (a string becomes a plain node), or is a mapping from ids to weights; at most 100 000.
    Building and each change take O(nodes log nodes).

    >>> topology = Topology(["b", Node("a", zone=("eu",))])
    >>> topology.ids, topology.index("b"), "c" in topology
    (('a', 'b'), 1, False)
    >>> Topology({"a": 1, "b": 9})["b"]
    Node(id='b', zone=(), weight=9.0)
    >>> topology.add("c").drain("a")
    Topology(3 nodes in 1 zone, 2 without one, 1 draining, epoch 3:4809971a)
    """

    nodes: tuple[Node, ...]
    cluster: str
    number: int = field(compare=False)
    ids: tuple[str, ...] = field(compare=False)
    _index: dict[str, int] = field(compare=False)

    def __init__(
        self, nodes: "Iterable[Node | str] | Mapping[str, float]" = (), *, cluster: str = "", number: int = 1
    ) -> None:
        if not isinstance(cluster, str) or cluster:
            check_name("cluster", cluster)
        listed = _sorted_nodes(nodes)
        ids = tuple(map(_id_of, listed))
        index = dict(zip(ids, range(len(ids)), strict=True))
        if len(index) < len(ids):
            raise DuplicateNode(next(left for left, right in pairwise(ids) if left == right))
        object.__setattr__(self, "nodes", listed)
        object.__setattr__(self, "cluster", cluster)
        object.__setattr__(self, "number", check_number(number))
        object.__setattr__(self, "ids", ids)
        object.__setattr__(self, "_index", index)

    @property
    def epoch(self) -> Epoch:
        """The number, and the digest of cluster name and nodes. O(nodes)."""
        parts = [self.cluster.encode()]
        for node in self.nodes:
            parts += [
                node.id.encode(),
                node.millionths.to_bytes(8, "little"),
                *(level.encode() for level in node.zone),
                b"",
            ]
        return Epoch(number=self.number, digest=content_digest(*parts))

    @property
    def nodes_in_zones(self) -> str:
        """The numbers of nodes, of zones, and of nodes without a zone, as text."""
        zones, alone = len({node.zone for node in self.nodes if node.zone}), len(self.zoneless)
        nodes = f"{len(self)} node{'' if len(self) == 1 else 's'}"
        in_zones = f" in {zones} zone{'' if zones == 1 else 's'}" + (f", {alone} without one" if alone else "")
        return nodes + (in_zones if zones else ", no zones")

    @property
    def zoneless(self) -> tuple[str, ...]:
        """The ids of the nodes without a zone.

        Each of them fails alone, so it may hold a replica together with nodes of any zone.
        """
        return tuple(node.id for node in self.nodes if not node.zone)

    def index(self, node_id: str) -> int:
        """Return the index of a node in `nodes`; raise `UnknownNode` for an unknown id. O(1)."""
        try:
            return self._index[node_id]
        except (KeyError, TypeError):
            raise UnknownNode(node_id, self.ids) from None

    def add(self, *nodes: Node | str) -> Self:
        """Return the next topology with more nodes; `DuplicateNode` if it has one of them already."""
        return self._next((*self.nodes, *nodes))

    def without(self, *node_ids: str) -> Self:
        """Return the next topology without these nodes. They own nothing, and are no source of copies."""
        gone = {self.index(node_id) for node_id in node_ids}
        return self._next(node for index, node in enumerate(self.nodes) if index not in gone)

    def reweight(self, node_id: str, weight: float) -> Self:
        """Return the next topology with one weight changed."""
        index = self.index(node_id)
        changed = Node(node_id, zone=self.nodes[index].zone, weight=weight)
        return self._next((*self.nodes[:index], changed, *self.nodes[index + 1 :]))

    def drain(self, *node_ids: str) -> Self:
        """Return the next topology with weight 0 for these nodes. They own nothing, but remain sources of copies."""
        draining = {self.index(node_id) for node_id in node_ids}
        return self._next(
            Node(node.id, zone=node.zone, weight=0) if index in draining else node
            for index, node in enumerate(self.nodes)
        )

    def _next(self, nodes: "Iterable[Node | str]") -> Self:
        return type(self)(nodes, cluster=self.cluster, number=self.number + 1)

    def __getitem__(self, node_id: str) -> Node:
        return self.nodes[self.index(node_id)]

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._index

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        draining = sum(node.weight == 0 for node in self.nodes)
        drained = f", {draining} draining" if draining else ""
        return f"Topology({self.nodes_in_zones}{drained}, epoch {self.epoch})"


def nodes_of(ids: Sequence[str], zones: Sequence[tuple[str, ...]], millionths: Sequence[int]) -> list[Node]:
    """Return nodes from saved columns of equal length, by the rules of `Node`. Each distinct zone is checked once."""
    for zone in set(zones):
        _checked_zone(zone)
    weights = [number / 1_000_000 for number in millionths]
    if not (_are_plain(ids) and all(weight == 0 or MIN_WEIGHT <= weight <= MAX_WEIGHT for weight in set(weights))):
        rows = zip(ids, zones, weights, strict=True)
        return [Node(node_id, zone=zone, weight=weight) for node_id, zone, weight in rows]
    nodes = list(map(object.__new__, repeat(Node, len(ids))))
    # The checks of the constructor are done above; only its fields remain to be set.
    for set_field, values in ((_set_id, ids), (_set_zone, zones), (_set_weight, weights)):
        deque(map(set_field, nodes, values), maxlen=0)  # sets one field of all nodes, and keeps no result
    return nodes


def check_name(field_name: str, name: object) -> str:
    """Return `name` if it can name a node, a zone level or a cluster; raise `InvalidInput` otherwise.

    A name is 1 .. 255 bytes of UTF-8 that print in one line (no control, direction or unpaired surrogate characters).
    It has no blank at either end and contains no password.
    """
    if type(name) is str and _is_plain(name):
        return name
    if not isinstance(name, str):
        hint = f"Pass a string; call str(...) if {shown(name)} is meant."
        raise InvalidInput(field_name, name, "a str", hint)
    if not 0 < len(name) <= MAX_NAME_BYTES or len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        hint = "Use a shorter name." if name else "Give it a name; check for an extra separator."
        raise InvalidInput(field_name, name, f"1 .. {MAX_NAME_BYTES} bytes of UTF-8", hint)
    if not name.isprintable() or name != name.strip():
        hint = "Remove the character that is shown escaped, or call strip()."
        raise InvalidInput(field_name, name, "printable characters without blanks at the ends", hint)
    scheme, _, rest = name.partition("://")
    if scheme != name and "@" in rest:
        hint = "Names reach tables, logs and metrics; keep the address elsewhere."
        raise InvalidInput(field_name, name, "a name without credentials", hint)
    return name


def check_names(field_name: str, names: Sequence[object]) -> list[str]:
    """Return names if each passes `check_name`. Plain names are checked together, which is faster."""
    words = [name for name in names if type(name) is str]
    if len(words) == len(names) and _are_plain(words):
        return words
    return [check_name(field_name, name) for name in names]


def _is_plain(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME_BYTES and _is_word(name)


def _are_plain(names: Sequence[str]) -> bool:
    """Whether all names are plain; one check of all is faster than one check per name."""
    return set(map(len, names)) <= _PLAIN_LENGTHS and _is_word("".join(names))


_PLAIN_LENGTHS = frozenset(range(1, MAX_NAME_BYTES + 1))


def _is_word(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text and "@" not in text


def _sorted_nodes(nodes: "Iterable[Node | str] | Mapping[str, float]") -> tuple[Node, ...]:
    if isinstance(nodes, (str, bytes)) or not isinstance(nodes, Iterable) or getattr(nodes, "ndim", 1) != 1:
        is_single = isinstance(nodes, (str, bytes, Node))
        hint = 'Put a single node in a list: ["a"].' if is_single else 'Write a list: ["a", "b"], or pass a topology.'
        raise InvalidInput("nodes", nodes, "an iterable of Node or str", hint)
    if isinstance(nodes, Mapping):
        nodes = (Node(node_id, weight=weight) for node_id, weight in nodes.items())
    given = list(islice(nodes, MAX_NODES + 1))
    if len(given) > MAX_NODES:
        hint = "Place keys on groups of nodes, then within a group."
        raise InvalidInput("nodes", f"{MAX_NODES} and more", f"at most MAX_NODES = {MAX_NODES} of them", hint)
    listed = [node if isinstance(node, Node) else _plain(node) for node in given]
    return tuple(sorted(listed, key=_id_of))


def _plain(node_id: str) -> Node:
    if isinstance(node_id, (tuple, list, dict)):
        hint = 'Write Node("a", weight=2). To add a list, write add(*nodes).'
        raise InvalidInput("node", node_id, "a Node or a str", hint)
    return Node(node_id)


def _checked_zone(zone: object) -> tuple[str, ...]:
    if not isinstance(zone, (tuple, list)):
        hint = 'Write zone=("eu", "rack1"), or zone=() for none.'
        raise InvalidInput("zone", zone, "a tuple of names, outermost first", hint)
    if len(zone) > MAX_ZONE_LEVELS:
        hint = "Drop the levels that cannot fail as a whole."
        raise InvalidInput("zone levels", len(zone), f"at most {MAX_ZONE_LEVELS}", hint)
    return tuple(check_name("zone level", level) for level in zone)


def _checked_weight(node_id: str, weight: float) -> float:
    number = _number(weight)
    # NaN fails both comparisons, infinity the second.
    if number is None or not (number == 0 or MIN_WEIGHT <= number <= MAX_WEIGHT):
        expected = f"0 (drain) or a finite number in {MIN_WEIGHT:g} .. {MAX_WEIGHT:g}"
        hint = "Weights are relative: give the ordinary node 1."
        raise BadWeight(f"weight of node {shown(node_id)}", weight if number is None else number, expected, hint)
    return round(number * 1_000_000) / 1_000_000


def _number(weight: object) -> float | None:
    """Return the Python value of a number, also of NumPy; None for another value."""
    if isinstance(weight, bool) or not isinstance(weight, Real):
        return None
    if isinstance(weight, int):
        return weight
    # NumPy declares spans of time as integers, but they have no `__index__`.
    return float(weight) if hasattr(weight, "__index__") or not isinstance(weight, Integral) else None
