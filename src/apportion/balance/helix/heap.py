"""Java's `PriorityQueue`: a binary heap, where the sifting determines the order of equal items.

Two nodes can be equal in every rank of Helix, so the sifting decides; the sifting of `heapq` is different.
Source: `java.util.PriorityQueue`.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Heap(Generic[Item]):
    """Items by rank, the least first. The rank of an item may change while the item is not in the heap.

    >>> heap = Heap(["bb", "a", "cc"], rank=lambda text: (len(text), 0))
    >>> [heap.pop() for _ in range(len(heap))]
    ['a', 'cc', 'bb']
    """

    __slots__ = ("_items", "_rank")

    def __init__(self, items: Iterable[Item], rank: Callable[[Item], tuple[int, int]]) -> None:
        self._items: list[Item] = []
        self._rank = rank
        for item in items:
            self.push(item)

    def push(self, item: Item) -> None:
        """Add an item. O(log items)."""
        items, place = self._items, len(self._items)
        items.append(item)
        while place > 0 and self._is_before(item, items[(place - 1) // 2]):
            parent = (place - 1) // 2
            items[place] = items[parent]
            place = parent
        items[place] = item

    def pop(self) -> Item:
        """Take the first item out. O(log items)."""
        last = self._items.pop()
        if not self._items:
            return last
        first = self._items[0]
        self._sift_down(last)
        return first

    def _sift_down(self, item: Item) -> None:
        items, place = self._items, 0
        while (child := 2 * place + 1) < len(items):
            if child + 1 < len(items) and self._is_before(items[child + 1], items[child]):
                child += 1
            if not self._is_before(items[child], item):
                break
            items[place] = items[child]
            place = child
        items[place] = item

    def _is_before(self, left: Item, right: Item) -> bool:
        return self._rank(left) < self._rank(right)

    def __len__(self) -> int:
        return len(self._items)
