"""Router: hash a key, search the stretch of the circle that contains it, and name the owner.

The base class of `Tabular`, and so of rings, slots and saved tables. If the native twin is in use, the class of the
twin takes its place, so `ring.route` calls the twin directly. The class below is the reference and gives the same
answers.

Stretch i ends with the position `bounds[i]`; one more stretch, the last, goes to the end of the circle.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from apportion import native
from apportion.errors import BadRange
from apportion.model.plan import Key
from apportion.model.token import POSITIONS, Token
from apportion.model.topology import Node, Topology
from apportion.placement.api import index_buffer
from apportion.placement.hashers import Digest, Hasher, position_of
from apportion.placement.keys.key_bytes import check_threads, key_bytes, listed
from apportion.placement.shapes.preferences import Preferences
from apportion.placement.shapes.ring_tokens import ring_tokens


class ReferenceRouter(Preferences):
    """Stretches and their owners. Lookup: O(log stretches)."""

    __slots__ = ("_bounds", "_indexes", "_nodes", "_owner_ids", "_position_of")

    _bounds: tuple[Token, ...]
    _indexes: tuple[int, ...]
    _owner_ids: tuple[str, ...]
    _nodes: int
    _position_of: Digest

    def route(self, key: Key) -> str:
        """Return the id of the node that handles a key."""
        return self._owner_ids[bisect_left(self._bounds, self._position_of(key_bytes(key)))]

    def route_many(self, keys: Iterable[Key], *, threads: int = 1) -> list[str]:
        """Return the node ids of many keys, in the order of the keys."""
        check_threads(threads)
        names, bounds, position = self._owner_ids, self._bounds, self._position_of
        return [names[bisect_left(bounds, position(key_bytes(key)))] for key in listed(keys)]

    def route_indexes(self, keys: Iterable[Key], *, threads: int = 1) -> "array[int]":
        """Return indexes into `topology.nodes` as a buffer, in the order of the keys."""
        check_threads(threads)
        return index_buffer((self._indexes[self._stretch(key)] for key in listed(keys)), self._nodes)

    def owner_at(self, position: Token) -> str:
        """Return the id of the node that owns a position of the circle; `BadRange` off it."""
        return self._owner_ids[bisect_left(self._bounds, check_token(position))]

    def _lay(self, ids: Sequence[str], hasher: Hasher, bounds: bytes, owners: bytes) -> None:
        """Take the sorted bounds (8 bytes each) and the index of each stretch's owner (4 bytes each).

        Both are in the byte order of the machine, and never change after that.
        """
        indexes = tuple(array("I", owners))
        values = {
            "_bounds": tuple(array("Q", bounds)),
            "_indexes": indexes,
            "_owner_ids": tuple(ids[index] for index in indexes),
            "_nodes": len(ids),
            "_position_of": position_of(hasher),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _lay_tokens(
        self,
        topology: Topology,
        hasher: Hasher,
        count_of: Callable[[Node], int],
        check: Callable[[int], None],
        before: "ReferenceRouter | None" = None,  # noqa: ARG002 - the twin takes over the equal parts
    ) -> None:
        """Lay the tokens of a ring. `count_of` gives their number per node; `check` gets the sum before any is made."""
        counts = [count_of(node) for node in topology]
        check(sum(counts))
        # A token of two nodes stands twice, the smaller id first: that node owns it, and a walk meets the other next.
        tokens = sorted(
            (token, index)
            for index, (node_id, count) in enumerate(zip(topology.ids, counts, strict=True))
            for token in ring_tokens(node_id, count, position_of(hasher))
        )
        bounds, owners = array("Q", (token for token, _ in tokens)), array("I", (index for _, index in tokens))
        self._lay(topology.ids, hasher, bounds.tobytes(), (owners + owners[:1]).tobytes())

    def _stretch(self, key: Key) -> int:
        return bisect_left(self._bounds, self._position_of(key_bytes(key)))

    def _ranking(self, stretch: int) -> Iterable[int]:
        """Return every owner once, in the order of their stretches, starting at this one."""
        places = (*range(stretch, len(self._indexes)), *range(stretch))
        return dict.fromkeys(self._indexes[place] for place in places)

    def _cuts(self) -> tuple[bytes, bytes]:
        """Return the bounds and the owners as they were laid."""
        return array("Q", self._bounds).tobytes(), array("I", self._indexes).tobytes()


def check_token(position: Token) -> Token:
    """Return a position of the circle; raise `BadRange` for anything else."""
    if type(position) is not int or not 0 <= position < POSITIONS:
        raise BadRange("position", position, "an int in 0 .. 2**64 - 1", "Route a key, or hash it first.")
    return position


def circle_of(owners: Mapping[Token, int]) -> tuple[bytes, bytes]:
    """Return the bounds and owners of a circle on which a position belongs to the first token at or after it.

    The circle closes: positions after the last token belong to the first token. O(tokens log tokens).
    """
    tokens = sorted(owners)
    return array("Q", tokens).tobytes(), array("I", [owners[token] for token in (*tokens, tokens[0])]).tobytes()


if TYPE_CHECKING or not native.IN_USE:  # noqa: SIM108 - a type checker needs one class
    Router = ReferenceRouter
else:
    Router = native.extension.Router
