"""Equal costs: among results of equal cost, choose one that also evens out the nodes' load from other resources.

Promises: the cost and the bounds stay. Each step makes the totals of the nodes (this resource and the others) more
even, until no step can.
Refuses: to prove that no other result of the same cost is more even.
"""

from collections import deque
from collections.abc import Sequence

from apportion.balance.solver.augment import NOTHING, Augmenting, Open


def even_out(result: Augmenting, elsewhere: Sequence[int]) -> None:
    """Move items one by one from nodes with a large total, here and elsewhere. O(items) per item moved."""
    while _evens_out(result, [load + more for load, more in zip(result.load, elsewhere, strict=True)]):
        pass


def _evens_out(result: Augmenting, sums: Sequence[int]) -> bool:
    """Pass on one item from a node with a large sum to one with a sum smaller by two or more, if that is possible."""
    nodes = range(result.nodes)
    takers = {node for node in nodes if result.may_take(node)}
    for giver in sorted(filter(result.may_give, nodes), key=lambda node: -sums[node]):
        allowed = {node for node in takers if result.pools[node] == result.pools[giver]}
        if not any(sums[node] <= sums[giver] - 2 for node in allowed):
            continue
        came_from = _tree(result, giver)
        taker = min(allowed.intersection(came_from), key=lambda node: (sums[node], node), default=giver)
        if sums[taker] <= sums[giver] - 2:
            _pass_along(result, giver, taker, came_from)
            return True
    return False


def _tree(result: Augmenting, root: int) -> dict[int, tuple[int, int]]:
    """Return the node before and the item passed, for every node that tight steps from the root reach."""
    unseen = Open([node for node in range(result.nodes) if node != root], result.price, result.zones)
    came_from: dict[int, tuple[int, int]] = {}
    queue = deque([root])
    while queue:
        node = queue.popleft()
        for item in result.held[node]:
            while (reached := result.target(node, item, unseen)) != NOTHING:
                unseen.close(reached)
                came_from[reached] = node, item
                queue.append(reached)
    return came_from


def _pass_along(result: Augmenting, giver: int, taker: int, came_from: dict[int, tuple[int, int]]) -> None:
    result.load[giver] -= 1
    result.load[taker] += 1
    while taker != giver:
        node, item = came_from[taker]
        result.held[node].remove(item)
        result.held[taker].append(item)
        result.swap(item, node, taker)
        taker = node
