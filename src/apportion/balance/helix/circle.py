"""The circle of CrushED: it finds nodes in place of those that are not live.

Promises: the nodes that Helix finds. **It does not wrap around**: a replica that looks beyond the last token finds no
node. Then the whole resource goes back to plain CRUSH; this sometimes happens in small clusters. Helix does not look
at loads here, so evenness is lost with the first node that is down.
Source: `ConsistentHashingAdjustmentAlgorithm` of Helix.
"""

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from apportion import native
from apportion.balance.helix.card_dealer import Held
from apportion.balance.helix.jenkins import hash1, hash2, hash3
from apportion.balance.helix.tree import FaultZone
from apportion.balance.java.hashmap import in_order
from apportion.balance.java.values import string_hash

TOKENS_PER_NODE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCircle:
    """Sorted tokens, and the node of each as an index into `nodes`."""

    nodes: Sequence[str]
    tokens: Sequence[int]
    owners: Sequence[int]

    @classmethod
    def of(cls, nodes: Collection[str]) -> "TokenCircle":
        """Return the circle of some nodes: 1000 tokens per node. A token of two nodes belongs to the later one."""
        listed = in_order(nodes)
        words = [string_hash(node) for node in listed]
        if not native.IN_USE:
            tokens, owners = reference_tokens(words, TOKENS_PER_NODE)
        else:
            tokens, owners = (array("I", each) for each in native.extension.circle_tokens(words, TOKENS_PER_NODE))
        return cls(nodes=listed, tokens=tokens, owners=owners)

    def from_token(self, token: int) -> Iterable[str]:
        """Yield the nodes at or after a token, to the end."""
        return (self.nodes[self.owners[place]] for place in range(bisect_left(self.tokens, token), len(self.owners)))


def reference_tokens(words: Sequence[int], each: int) -> "tuple[array[int], array[int]]":
    """Return the sorted tokens of nodes, from the hashes of their names, and each token's node; by the reference."""
    owners = {hash2(word, number): node for node, word in enumerate(words) for number in range(each)}
    tokens = sorted(owners)
    return array("I", tokens), array("I", map(owners.__getitem__, tokens))


def move_from_dead(zones: Sequence[FaultZone], held: Held, live: Collection[str], seed: int) -> bool:
    """Move the partitions of nodes that are not live, in place; return whether a node was found for all of them."""
    zone_of = {node: zone.name for zone in zones for node in zone.nodes}
    dead = [node for node in in_order(held) if node not in live]
    # The number of lost replicas of each partition, in the order in which Java meets them.
    lost: dict[str, int] = {}
    for node in dead:
        for partition in held.pop(node):
            lost[partition] = lost.get(partition, 0) + 1
    present: dict[str, set[str]] = {zone.name: set() for zone in zones}
    for node, partitions in held.items():
        present[zone_of[node]].update(partitions)
    circle = TokenCircle.of([node for zone in zones for node in zone.nodes])
    for partition in in_order(lost):
        for number in range(lost[partition]):
            closed = {name for name, partitions in present.items() if partition in partitions}
            start = hash1(hash3(seed, string_hash(partition), number))
            places = (node for node in circle.from_token(start) if node in live and zone_of[node] not in closed)
            found = next(places, None)
            if found is None:
                return False
            held.setdefault(found, []).append(partition)
            present[zone_of[found]].add(partition)
    return True
