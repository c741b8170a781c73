"""The evenest loads of members that want different topics: the least sum of squares.

Any sharing of partitions is improved along chains. A member with two more than another passes one partition on. Its
taker passes one on, and so on, until the other member gets one. Where no chain is left, the sum is the least
possible.

Then take the members with the largest load, and all members that chains reach from them. Each of these holds that
load or one less, and no other member wants their partitions. So in every evenest sharing they have the same total,
and each has one of these two loads. The same argument then applies to the remaining members.

Promises: the returned bounds and pools are fulfilled by all the evenest sharings, and by no others.
Source: the shortest augmenting chains of separable convex flows. The division of the members into pools is that of
decreasing minimality (Frank and Murota 2018).
"""

from collections.abc import Sequence
from heapq import heapify, heapreplace

from apportion.balance.solver.quotas import LoadBounds


def evenest_loads(wanting: Sequence[Sequence[int]], counts: Sequence[int], members: int) -> LoadBounds:
    """Return the bounds of the evenest loads; the members `wanting[t]` may have the `counts[t]` partitions of topic t.

    O(partitions · log members), then O(topics · members) for each chain, of which there are few.
    """
    sharing = _Sharing(wanting, counts, members)
    while any([sharing.improve(member) for member in range(members)]):  # noqa: C419 - all of them, each time
        pass
    return sharing.bounds()


class _Sharing:
    """The number of partitions of each topic that each member has."""

    def __init__(self, wanting: Sequence[Sequence[int]], counts: Sequence[int], members: int) -> None:
        self._wanting = [frozenset(each) for each in wanting]
        self._held: list[dict[int, int]] = [{} for _ in range(members)]
        self.loads = [0] * members
        for topic in sorted(range(len(counts)), key=lambda topic: len(wanting[topic])):
            heap = [(self.loads[member], member) for member in wanting[topic]]
            heapify(heap)
            for _ in range(counts[topic]):
                load, member = heap[0]
                heapreplace(heap, (load + 1, member))
                self._give(topic, member)

    def _give(self, topic: int, member: int) -> None:
        self._held[member][topic] = self._held[member].get(topic, 0) + 1
        self.loads[member] += 1

    def _take(self, topic: int, member: int) -> None:
        self._held[member][topic] -= 1
        if not self._held[member][topic]:
            del self._held[member][topic]
        self.loads[member] -= 1

    def improve(self, member: int) -> bool:
        """Pass one partition along a chain to a member that has two fewer; return whether there is such a chain."""
        chains = self._chains([member])
        taker = next((each for each in chains if self.loads[each] < self.loads[member] - 1), None)
        while taker is not None and taker != member:
            giver, topic = chains[taker]
            self._take(topic, giver)
            self._give(topic, taker)
            taker = giver
        return taker is not None

    def _chains(self, starts: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return the reachable members, nearest first, each with a chain's last giver and the topic that it gives."""
        chains = {start: (start, 0) for start in starts}
        frontier, open_topics = list(starts), set(range(len(self._wanting)))
        while frontier:
            beyond = []
            for giver in frontier:
                for topic in sorted(open_topics.intersection(self._held[giver])):
                    open_topics.discard(topic)
                    for taker in sorted(self._wanting[topic].difference(chains)):
                        chains[taker] = giver, topic
                        beyond.append(taker)
            frontier = beyond
        return chains

    def bounds(self) -> LoadBounds:
        """Return the loads of all sharings that are as even as this one, which is the evenest."""
        pools, highest, totals = [-1] * len(self.loads), list[int](), list[int]()
        for load in sorted(set(self.loads), reverse=True):
            starts = [member for member, own in enumerate(self.loads) if own == load and pools[member] < 0]
            pooled = [member for member in self._chains(starts) if pools[member] < 0]
            for member in pooled:
                pools[member] = len(totals)
            if pooled:
                highest.append(load)
                totals.append(sum(self.loads[member] for member in pooled))
        return LoadBounds(
            least=tuple(max(0, highest[pool] - 1) for pool in pools),
            most=tuple(highest[pool] for pool in pools),
            pools=tuple(pools),
            totals=tuple(totals),
        )
