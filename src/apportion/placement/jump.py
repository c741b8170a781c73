"""Jump consistent hashing: the owner is computed in O(log nodes) without any table.

Promises: shares are equal. A node added or removed at the end of the order moves only the keys it gains or loses. The
bucket of a 64-bit number is the same as in every other implementation.
Refuses: weights, preference lists, and any change except at the end of the order: take `rendezvous` or `ring` for
those.
The two divisions are IEEE 754 doubles, as published; every machine rounds them alike.

Source: Lamping and Veach 2014.
"""

from dataclasses import dataclass

from apportion import native
from apportion.errors import CannotPlace, InvalidInput
from apportion.errors.brief import brief
from apportion.model.plan import Key
from apportion.placement.api import Nodes, PlacementSpec
from apportion.placement.explanation import Explanation
from apportion.placement.hashers import DEFAULT, Hasher, resolve
from apportion.placement.keys.key_bytes import key_bytes
from apportion.placement.shapes.ordered import Ordered, in_order

_LINEAR = 2862933555777941757
_MASK = 2**64 - 1


def bucket(number: int, buckets: int) -> int:
    """Return the bucket, 0 <= bucket < buckets, of a 64-bit number. O(log buckets).

    >>> [bucket(10863919174838991, buckets) for buckets in (1, 10, 100)]
    [0, 6, 21]
    """
    if type(number) is not int or type(buckets) is not int or not (0 <= number < 2**64 and 0 < buckets < 2**31):
        value = number if type(buckets) is int and 0 < buckets < 2**31 else buckets
        hint = "The number is the hash of a key; the buckets are a count."
        raise InvalidInput("jump input", value, "a number in 0 .. 2**64 - 1, or buckets in 1 .. 2**31 - 1", hint)
    candidate, jump = -1, 0
    while jump < buckets:
        candidate = jump
        number = number * _LINEAR + 1 & _MASK
        jump = int((candidate + 1) * (2147483648.0 / ((number >> 33) + 1)))
    return candidate


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Jump(Ordered):
    """Jump hashing over nodes in the order given (a topology gives its own, by id). Lookup: O(log nodes).

    >>> jump = Jump(["b", "a"])
    >>> jump.order, jump.on(jump.topology.add("c")).order
    (('b', 'a'), ('b', 'a', 'c'))
    """

    _KIND = "jump hashing"

    def __init__(self, nodes: Nodes, *, hasher: str | Hasher = DEFAULT) -> None:
        topology, ids = in_order(nodes, "A set has no order, and jump hashing needs one: pass a list or a topology.")
        self._fill_in_order(topology, ids, resolve(hasher))

    def _make_twin(self) -> "native.extension.Chooser":
        return native.extension.Chooser.jump(self.topology.ids, self.hasher, self._indexes)

    def _owner(self, key_hash: int) -> int:
        return self._indexes[bucket(key_hash, len(self._indexes))]

    def explain(self, key: Key) -> Explanation:
        """Return the bucket of a key, and the node that would take over from the last node."""
        key_hash = self._hash(key_bytes(key))
        number = bucket(key_hash, len(self.order))
        is_last = number == len(self.order) - 1 and number > 0
        return Explanation(
            key=key,
            placement="jump",
            hasher=self.hasher.label,
            hash=key_hash,
            owner=self.order[number],
            why=f"jumps to bucket {number} of {len(self.order)}; only the last node, {self.order[-1]}, can leave",
            if_owner_left=self.order[bucket(key_hash, number)] if is_last else None,
        )

    def _refusal(self, node_id: str) -> CannotPlace:
        return CannotPlace(
            f"{node_id!r} leaves from the middle of the order, which would move keys of the nodes after it.",
            "Remove nodes from the end, last first, or use Rendezvous or Ring.",
        )


SPEC = PlacementSpec(
    name="jump",
    build=Jump,
    source="Lamping and Veach 2014",
    minimal_disruption=True,
    lookup="O(log nodes)",
    removes="last",
)
