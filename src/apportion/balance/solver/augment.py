"""Primal-dual augmentation: pass items from nodes that hold too much to nodes that hold too little, cheapest first.

Each item (a replica of a partition, or the lead of one) sits on a node. An item costs 0 where it was before and 1
elsewhere, and nodes have prices. At any time every item sits where cost plus price is least: that makes the result
provably cheapest. Items are passed on only between nodes where they cost the same (a *tight* step). When no chain of
tight steps leads from a node with too much to one with too little, every reachable node gets dearer by one.

Each node belongs to a *pool*, and the nodes of a pool must hold a fixed number of items together. A node with a load
between `least` and `most` may take or give one item.

Promises: integers only; the same input gives the same result; the result of `finish` is optimal for its prices.
Source: the primal-dual method for minimum-cost flows, with the blocking flows of Dinic.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence

from apportion.balance.solver.quotas import LoadBounds
from apportion.errors import InvariantBroken

NOTHING = -1


class Open:
    """The nodes that a step may lead to now, by price and zone; nodes used least recently come first."""

    def __init__(self, nodes: Sequence[int], prices: Sequence[int], zones: Sequence[int]) -> None:
        self._prices, self._zones = prices, zones
        self._members = set(nodes)
        self._by_price: dict[int, dict[int, deque[int]]] = {}
        for node in nodes:
            self._by_price.setdefault(prices[node], {}).setdefault(zones[node], deque()).append(node)

    def __contains__(self, node: int) -> bool:
        return node in self._members

    def zones_at(self, price: int) -> Iterator[tuple[int, "deque[int]"]]:
        """Yield each zone that has open nodes of a price, with these nodes."""
        return iter(self._by_price.get(price, {}).items())

    def close(self, node: int) -> None:
        """Take a node out."""
        self._members.discard(node)
        zones = self._by_price[self._prices[node]]
        zone = zones[self._zones[node]]
        zone.remove(node)
        if not zone:
            del zones[self._zones[node]]

    def defer(self, node: int) -> None:
        """Put a node behind the other nodes of its price and zone."""
        zone = self._by_price[self._prices[node]][self._zones[node]]
        zone.remove(node)
        zone.append(node)


class Augmenting(ABC):
    """Items on nodes, brought within bounds on the nodes' loads at the least cost.

    Vertices are the nodes, then the pools. `held` lists the items of each node.
    """

    least: tuple[int, ...]
    most: tuple[int, ...]
    pools: tuple[int, ...]

    def __init__(self, bounds: LoadBounds, zones: Sequence[int], held: list[list[int]]) -> None:
        self.least, self.most, self.pools = bounds.least, bounds.most, bounds.pools
        self.zones = zones
        self.held = held
        self.load: list[int] = [len(items) for items in held]
        self.nodes: int = len(held)
        self.price: list[int] = [0] * (self.nodes + len(bounds.totals))
        self.need: list[int] = list(bounds.totals)
        self.members: list[list[int]] = [[] for _ in bounds.totals]
        for node, pool in enumerate(self.pools):
            self.need[pool] -= min(max(self.load[node], self.least[node]), self.most[node])
            self.members[pool].append(node)
        self.level: list[int] = []

    @abstractmethod
    def target(self, node: int, item: int, among: Open) -> int:
        """Return an open node to which an item of a node can be passed by a tight step, or `NOTHING`."""

    @abstractmethod
    def swap(self, item: int, giver: int, taker: int) -> None:
        """Note that an item now sits on another node."""

    def finish(self) -> None:
        """Bring all loads within their bounds. O(items) per round; rounds are few where most items can stay."""
        while sources := self._sources():
            if self._reaches(sources):
                self._push_all(sources)
                continue
            for vertex, level in enumerate(self.level):
                self.price[vertex] += level != NOTHING
            if max(self.price) > 2 * len(self.price) + 2:
                raise InvariantBroken(f"no way from {sources[0]} to a node with room")

    def _sources(self) -> list[int]:
        nodes = [node for node, load in enumerate(self.load) if load > self.most[node]]
        return nodes + [self.nodes + pool for pool, need in enumerate(self.need) if need < 0]

    def _is_sink(self, vertex: int) -> bool:
        return self.need[vertex - self.nodes] > 0 if vertex >= self.nodes else self.load[vertex] < self.least[vertex]

    def _reaches(self, sources: Sequence[int]) -> bool:
        """Number the vertices by their distance in tight steps, up to the nearest sink; return whether there is one."""
        self.level = [NOTHING] * len(self.price)
        for vertex in sources:
            self.level[vertex] = 0
        unseen = Open([node for node in range(self.nodes) if self.level[node] == NOTHING], self.price, self.zones)
        frontier, distance, found = list(sources), 0, False
        while frontier and not found:
            distance += 1
            beyond = []
            for vertex in frontier:
                for reached, _ in self._steps(vertex, unseen):
                    self.level[reached] = distance
                    beyond.append(reached)
                    found = found or self._is_sink(reached)
            frontier = beyond
        return found

    def _steps(self, vertex: int, unseen: Open) -> Iterator[tuple[int, int]]:
        """Yield every unseen vertex that one tight step leads to, marked as seen, with the item that is passed."""
        if vertex >= self.nodes:
            for node in self.members[vertex - self.nodes]:
                if node in unseen and self.may_give(node):
                    unseen.close(node)
                    yield node, NOTHING
            return
        pool = self.nodes + self.pools[vertex]
        if self.level[pool] == NOTHING and self.may_take(vertex):
            yield pool, NOTHING
        for item in self.held[vertex]:
            while (node := self.target(vertex, item, unseen)) != NOTHING:
                unseen.close(node)
                yield node, item

    def may_take(self, node: int) -> bool:
        """Whether a node may hold one item more, by a tight step to its pool."""
        is_tight = self.price[node] == self.price[self.nodes + self.pools[node]]
        return is_tight and self.least[node] <= self.load[node] < self.most[node]

    def may_give(self, node: int) -> bool:
        """Whether a node may hold one item less, by a tight step from its pool."""
        is_tight = self.price[node] == self.price[self.nodes + self.pools[node]]
        return is_tight and self.least[node] < self.load[node] <= self.most[node]

    def _push_all(self, sources: Sequence[int]) -> None:
        """Pass on as many units as possible along the shortest chains, one after the other."""
        by_level: list[list[int]] = [[] for _ in range(max(self.level) + 1)]
        for node in range(self.nodes):
            if self.level[node] != NOTHING:
                by_level[self.level[node]].append(node)
        self._open = [Open(nodes, self.price, self.zones) for nodes in by_level]
        self._dead_pools = set[int]()
        self._left = [len(items) for items in self.held] + [len(members) for members in self.members]
        for source in sources:
            while self._has_too_much(source) and self._push(source):
                pass

    def _has_too_much(self, vertex: int) -> bool:
        return self.need[vertex - self.nodes] < 0 if vertex >= self.nodes else self.load[vertex] > self.most[vertex]

    def _push(self, source: int) -> bool:
        """Pass one unit from a source to a sink, if a chain is left."""
        path, items = [source], list[int]()
        while path:
            if len(path) > 1 and self._is_sink(path[-1]):
                self._apply(path, items)
                return True
            step = self._next_step(path[-1])
            if step is None:
                self._bury(path.pop())
                del items[-1:]
            else:
                path.append(step[0])
                items.append(step[1])
        return False

    def _next_step(self, vertex: int) -> tuple[int, int] | None:
        """Return the vertex to which the unit goes next and the item that is passed, or None at a dead end."""
        if vertex >= self.nodes:
            return self._next_of_pool(vertex)
        pool, onwards = self.nodes + self.pools[vertex], self.level[vertex] + 1
        if self.level[pool] == onwards and pool not in self._dead_pools and self.may_take(vertex):
            return pool, NOTHING
        if onwards == len(self._open):
            return None
        while self._left[vertex]:
            item = self.held[vertex][self._left[vertex] - 1]
            node = self.target(vertex, item, self._open[onwards])
            if node != NOTHING:
                return node, item
            self._left[vertex] -= 1
        return None

    def _next_of_pool(self, pool: int) -> tuple[int, int] | None:
        onwards = self.level[pool] + 1
        while self._left[pool] and onwards < len(self._open):
            node = self.members[pool - self.nodes][self._left[pool] - 1]
            if node in self._open[onwards] and self.may_give(node):
                return node, NOTHING
            self._left[pool] -= 1
        return None

    def _bury(self, vertex: int) -> None:
        if vertex >= self.nodes:
            self._dead_pools.add(vertex)
        else:
            self._open[self.level[vertex]].close(vertex)

    def _apply(self, path: Sequence[int], items: Sequence[int]) -> None:
        """Pass one unit along a chain, from the first vertex to the last."""
        if path[0] < self.nodes:
            self.load[path[0]] -= 1
        if path[-1] < self.nodes:
            self.load[path[-1]] += 1
        for vertex, onwards, item in zip(path, path[1:], items, strict=False):
            if onwards >= self.nodes:
                self.load[vertex] += 1
                self.need[onwards - self.nodes] -= 1
            elif vertex >= self.nodes:
                self.load[onwards] -= 1
                self.need[vertex - self.nodes] += 1
            else:
                self._pass_on(item, vertex, onwards)

    def _pass_on(self, item: int, giver: int, taker: int) -> None:
        """Move the item that the giver looked at last, and let the next item go to another node."""
        self._left[giver] -= 1
        last = self.held[giver].pop()
        if self._left[giver] < len(self.held[giver]):
            self.held[giver][self._left[giver]] = last
        self.held[taker].append(item)
        self.swap(item, giver, taker)
        self._open[self.level[taker]].defer(taker)
