"""The orders in which Java walks: strings by their UTF-16 units, hash maps by their buckets.

The assignors say "the first member", and mean the first that a `HashMap` of the group comes upon. So where several have
an equal right, this order decides, and whoever wants the same result must walk the same way.

Promises: equal to Java's, but for nine and more keys in one bucket, which Java turns into trees: with ids made of
random numbers, as Kafka's are, that is not seen.
Source: the documentation of `String.hashCode` and `String.compareTo`; `java.util.HashMap`.
"""

from collections.abc import Iterable

_START_BUCKETS = 16


def text_hash(text: str) -> int:
    """Return the hash of a string, unsigned. O(length).

    >>> text_hash("orders"), text_hash("consumer-1")
    (3286196965, 4128728090)
    """
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8) + low) & 0xFFFFFFFF
    return value


def partition_hash(topic_hash: int, number: int) -> int:
    """Return the hash of a partition of a topic, unsigned."""
    return (31 * (31 + number) + topic_hash) & 0xFFFFFFFF


def bucket(hashed: int, buckets: int) -> int:
    """Return which bucket of a hash map a hash goes to."""
    return (hashed ^ hashed >> 16) & (buckets - 1)


def buckets_for(keys: int) -> int:
    """Return how many buckets a hash map has that has grown to so many keys, three for every four buckets at most."""
    buckets = _START_BUCKETS
    while keys > buckets * 3 // 4:
        buckets *= 2
    return buckets


def walk(keys: Iterable[str]) -> list[str]:
    """Return different keys in the order in which a hash map walks them, into which they were put in this order.

    >>> walk(["c", "b", "a", "q"])
    ['a', 'q', 'b', 'c']
    """
    listed = list(keys)
    buckets = buckets_for(len(listed))
    return sorted(listed, key=lambda key: bucket(text_hash(key), buckets))


def text_order(text: str) -> bytes:
    """Return a key to sort strings by: above U+FFFF it differs from Python's order."""
    return text.encode("utf-16-be", "surrogatepass")
