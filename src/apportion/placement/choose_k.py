"""Consistent choose-k: every key ranks the numbers of the nodes, lazily; the first number with a live node owns it.

Promises: when any node comes or goes, only keys that it gains or loses move, in preference lists too. Shares are
equal, and there are no tokens. The answer depends on the live nodes and on `order`, never on the changes before. A
node that comes back gets its number again, unless a new node has taken it. With its number it gets its keys.
Refuses: weights; hashes of fewer than 64 bits. `order` is the list of numbers: keep it with the topology, because the
answers depend on it.

Cost: a lookup draws until a live number comes. Let L be the least number with 2**L >= the length of `order`. Then a
lookup needs 1 + (2**L - live) / (live + 1) draws on average, each of at most L hashes. No other ranking with equal
shares for every set of live nodes needs fewer draws. While at least half of the numbers are live, the average is below
4. To shrink further, build a new placement.

Format: `docs/algorithms/choose_k.md`.
Source: the node map of consistent-choose-k, github/rust-gems. The ranking is drawn by a rule of our own. A shuffle of
two halves is a random merge of the shuffles of both (as in MergeShuffle, Bacher et al. 2015).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice, repeat

from apportion import native
from apportion.errors import DuplicateNode, InvalidInput
from apportion.errors.brief import brief
from apportion.model.topology import MAX_NODES, Topology, check_name
from apportion.placement.api import Nodes, PlacementSpec
from apportion.placement.hashers import DEFAULT, Digest, Hasher, resolve
from apportion.placement.shapes.computed import equal_weights
from apportion.placement.shapes.ordered import in_order
from apportion.placement.shapes.ranked import Ranked
from apportion.placement.shapes.rebuilt import Rebuilt


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class ChooseK(Rebuilt, Ranked):
    """Choose-k over nodes in the order given (a topology gives its own, by id).

    Lookup: O(log nodes) while most numbers are live.

    `on(topology)` keeps the numbers of known nodes; new nodes take vacant numbers.
    Preference list: O(nodes + draws · log nodes).

    >>> nodes = ChooseK(["a", "b", "c"])
    >>> nodes.route("tenant-42"), nodes.preference("tenant-42", 3)
    ('b', ('b', 'c', 'a'))
    >>> fewer = nodes.on(nodes.topology.without("b"))
    >>> fewer.route("tenant-42"), fewer.order, fewer.on(fewer.topology.add("d")).order
    ('c', ('a', 'b', 'c'), ('a', 'd', 'c'))
    """

    _NAME = "choose_k"
    _OPTIONS = ("order", "hasher")

    order: tuple[str, ...]
    _tree: "_Tree" = field(compare=False)

    def __init__(self, nodes: Nodes, *, order: Iterable[str] | None = None, hasher: str | Hasher = DEFAULT) -> None:
        topology, ids = in_order(nodes, "A set has no order, and choose-k needs one: pass a list or a topology.")
        known = ids if order is None else _checked(order)
        live = {node.id for node in equal_weights(topology, "choose-k")}
        self._fill(topology, resolve(hasher, least_bits=64))
        object.__setattr__(self, "order", _numbered(known, topology))
        owners = tuple(topology.index(node_id) if node_id in live else None for node_id in self.order)
        object.__setattr__(self, "_tree", _Tree(owners))

    def _ranking(self, key_hash: int) -> Iterator[int]:
        return self._tree.ranking(self._hash, key_hash)

    def _why(self, key_hash: int, owner: str) -> str:
        drawn = self._tree.drawn(self._hash, key_hash)
        draws = next(count for count, index in enumerate(drawn, start=1) if index is not None)
        return f"draw {draws} is the first with a live node: number {self.order.index(owner)}, {owner}"

    def _make_twin(self) -> "native.extension.Chooser":
        return native.extension.Chooser.choose_k(self.topology.ids, self.hasher, self._tree.owners)

    def _owner(self, key_hash: int) -> int:
        return next(self._ranking(key_hash))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.topology!r}, {len(self.order)} numbers, hasher={self.hasher.label!r})"


class _Tree:
    """The tree of merges over all numbers. A half without a live number is never entered: its draws are None."""

    __slots__ = ("_live", "owners")

    def __init__(self, owners: tuple[int | None, ...]) -> None:
        """Take the topology's index for each number, None for a number that is not live."""
        self.owners = owners
        live = {number for number, index in enumerate(owners) if index is not None}
        self._live = [live]  # per level, the places above a live number
        for _ in range((len(owners) - 1).bit_length()):
            self._live.append({place >> 1 for place in self._live[-1]})

    def ranking(self, digest: Digest, key_hash: int) -> Iterator[int]:
        """Yield the topology's index of every live number, in the order of the key's shuffle."""
        return (index for index in self.drawn(digest, key_hash) if index is not None)

    def drawn(self, digest: Digest, key_hash: int) -> Iterator[int | None]:
        """Yield the result of each draw: the index of a live number, or None."""
        return self._draws(digest, key_hash.to_bytes(8, "little"), len(self._live) - 1, 0)

    def _draws(self, digest: Digest, data: bytes, level: int, place: int) -> Iterator[int | None]:
        if place not in self._live[level]:
            return repeat(None)
        return self._merged(digest, data, level, place) if level else iter((self.owners[place],))

    def _merged(self, digest: Digest, data: bytes, level: int, place: int) -> Iterator[int | None]:
        """Yield the draws of two halves, merged at random. If both halves are shuffles, the result is a shuffle too."""
        label = b"choose-k/1" + level.to_bytes(4, "little") + place.to_bytes(4, "little") + data
        halves = [self._draws(digest, data, level - 1, 2 * place + side) for side in (0, 1)]
        left = right = 1 << level - 1
        for draw in range(1 << level):
            is_right = digest(label + draw.to_bytes(4, "little")) * (left + right) >> 64 >= left
            left, right = left - (not is_right), right - is_right
            yield next(halves[is_right])


def _checked(order: Iterable[str]) -> list[str]:
    """Return the node ids of a numbering by the caller; refuse a value that is not a list of different names."""
    if isinstance(order, (str, bytes, set, frozenset)) or not isinstance(order, Iterable):
        raise InvalidInput("order", order, "a list of node ids", "Pass the `order` of the placement before.")
    known = list(islice(order, MAX_NODES + 1))
    if len(known) > MAX_NODES:
        hint = "Build it again, without order=."
        raise InvalidInput("order", len(known), f"at most MAX_NODES = {MAX_NODES} ids", hint)
    first: set[str] = set()
    for node_id in known:
        if check_name("node id in order", node_id) in first:
            raise DuplicateNode(node_id)
        first.add(node_id)
    return known


def _numbered(known: Iterable[str], topology: Topology) -> tuple[str, ...]:
    """Return an order in which every node of the topology has a number; known nodes keep theirs."""
    order = list(known)
    numbered = set(order)
    vacant = iter([number for number, node_id in enumerate(order) if node_id not in topology])
    for node_id in topology.ids:
        if node_id not in numbered:
            number = next(vacant, len(order))
            order[number : number + 1] = [node_id]
    return tuple(order)


SPEC = PlacementSpec(
    name="choose_k",
    build=ChooseK,
    source="consistent-choose-k, github/rust-gems",
    minimal_disruption=True,
    ranked=True,
    lookup="O(log nodes)",
)
