"""Multi-probe consistent hashing: one token per node, several probes per key; the probe nearest before a token wins.

Promises: when a node comes or goes, only keys that it gains or loses move (exact, not on average). There is one token
per node. With 21 probes and 100 nodes or more, hardly a node owns more than 1.1 times its fair share.
Refuses: weights (shares are equal only on average), hashes of fewer than 64 bits, and a promise for the smallest
shares. **Probes cap the peak and nothing else**: a node with its token just after another one is nearly idle. With
fewer than 30 nodes, one node may own much more than its share. `shares()` computes the shares of your nodes. For shares
that are even at both ends, take `slots`, `rendezvous` or `maglev`.

Format: `docs/algorithms/multiprobe.md`.
Source: Appleton and O'Reilly 2015.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import pairwise

from apportion import native
from apportion.errors.brief import brief
from apportion.model.numbers import check_int
from apportion.model.token import POSITIONS, Token
from apportion.placement.api import Nodes, PlacementSpec, topology_of
from apportion.placement.hashers import DEFAULT, Hasher, resolve
from apportion.placement.shapes.computed import equal_weights
from apportion.placement.shapes.ranked import Ranked
from apportion.placement.shapes.rebuilt import Rebuilt

DEFAULT_PROBES = 21
MOST_PROBES = 1024
_LAST = POSITIONS - 1


@brief
@dataclass(frozen=True, slots=True, init=False, repr=False)
class MultiProbe(Rebuilt, Ranked):
    """One token per node, `probes` probes per key. Build: O(nodes log nodes). Lookup: O(probes · log nodes).

    Preference list: O(nodes + probes · nodes walked).

    >>> multiprobe = MultiProbe(["a", "b", "c"])
    >>> multiprobe.route("tenant-42"), multiprobe.preference("tenant-42", 3)
    ('c', ('c', 'b', 'a'))
    >>> multiprobe.on(multiprobe.topology.without("c")).route("tenant-42")
    'b'
    """

    _NAME = "multiprobe"
    _OPTIONS = ("probes", "hasher")

    probes: int
    _tokens: tuple[Token, ...] = field(compare=False)
    _indexes: tuple[int, ...] = field(compare=False)

    def __init__(self, nodes: Nodes, *, probes: int = DEFAULT_PROBES, hasher: str | Hasher = DEFAULT) -> None:
        check_int("probes", probes, 1, MOST_PROBES, hint=f"The default is {DEFAULT_PROBES}; 1 is a plain ring.")
        topology = topology_of(nodes)
        owning = equal_weights(topology, "multi-probe hashing")
        self._fill(topology, resolve(hasher, least_bits=64))
        names = [node.id.encode() for node in owning]
        tokens = [self._hash(_label(len(name)) + name) for name in names]
        # If several nodes have the same token, the node with the smallest index, and so the smallest id, owns it.
        placed = sorted(zip(tokens, (topology.index(node.id) for node in owning), strict=True))
        object.__setattr__(self, "probes", probes)
        object.__setattr__(self, "_tokens", tuple(token for token, _ in placed))
        object.__setattr__(self, "_indexes", tuple(index for _, index in placed))

    def shares(self) -> dict[str, float]:
        """Return the part of all keys that each node owns, computed from the tokens up to rounding, not sampled.

        F(x) is the part of the circle that lies within x before a token. A probe at distance x before its token wins
        if all other probes are farther. Each is farther with probability 1 - F(x). Let g be the gap before a token.
        The token owns the integral of probes * (1 - F(x)) ** (probes - 1) from 0 to g. F is made of straight pieces.
        O(nodes log nodes).
        """
        share_of, share, nearer, start, covered = {}, 0.0, 1.0, 0, 0
        for narrower, gap in enumerate(sorted(self._gaps())):
            count = len(self._tokens) - narrower
            covered += (gap - start) * count
            farther = (1 - covered / POSITIONS) ** self.probes
            share += (nearer - farther) / count
            nearer, start, share_of[gap] = farther, gap, share
        shares = dict.fromkeys(self.topology.ids, 0.0)
        for gap, index in zip(self._gaps(), self._indexes, strict=True):
            shares[self.topology.ids[index]] = share_of[gap]
        return shares

    def _why(self, key_hash: int, owner: str) -> str:
        distance, number, place = min(self._landings(key_hash))
        before = f"{distance / POSITIONS:.2%} of the circle before {self._tokens[place]:#018x}, of {owner}"
        return f"probe {number} of {self.probes} is nearest before a token: {before}"

    def _make_twin(self) -> "native.extension.Chooser":
        return native.extension.Chooser.multiprobe(
            self.topology.ids, self.hasher, self._indexes, self._tokens, self.probes
        )

    def _owner(self, key_hash: int) -> int:
        return self._indexes[min(self._landings(key_hash))[2]]

    def _landings(self, key_hash: int) -> Iterator[tuple[int, int, int]]:
        """Yield per probe: its distance to the first token at or after it, its number, and the token's number."""
        label, digest, tokens = _label(0) + key_hash.to_bytes(8, "little"), self._hash, self._tokens
        for number in range(self.probes):
            probe = digest(label + number.to_bytes(4, "little"))
            place = bisect_left(tokens, probe) % len(tokens)
            yield tokens[place] - probe & _LAST, number, place

    def _ranking(self, key_hash: int) -> Iterator[int]:
        """Yield the index of every node with a token once, in the order of the least distance from any probe."""
        seen: set[int] = set()
        for _, _, place in merge(*map(self._walk, *zip(*self._landings(key_hash), strict=True))):
            if place not in seen:
                seen.add(place)
                yield self._indexes[place]

    def _walk(self, distance: int, number: int, place: int) -> Iterator[tuple[int, int, int]]:
        """Yield every token clockwise from the place of a probe, with its distance from the probe."""
        first = self._tokens[place]
        for other in (*range(place, len(self._tokens)), *range(place)):
            yield distance + (self._tokens[other] - first & _LAST), number, other

    def _gaps(self) -> list[int]:
        """Return the distance from each token back to the one before it; the whole circle for a single token."""
        first, last = self._tokens[0], self._tokens[-1]
        return [first + POSITIONS - last, *(right - left for left, right in pairwise(self._tokens))]


def _label(length: int) -> bytes:
    return b"multiprobe/1" + length.to_bytes(4, "little")


SPEC = PlacementSpec(
    name="multiprobe",
    build=MultiProbe,
    source="Appleton and O'Reilly 2015",
    minimal_disruption=True,
    ranked=True,
    lookup="O(log nodes)",
)
