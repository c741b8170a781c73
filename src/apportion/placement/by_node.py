"""By node: groups many keys by the node that handles them, as the first step of a fetch or a send.

Promises: every key once, in the order in which it was passed. Refuses: nodes without a key; they are not in the
answer.
"""

from array import array
from collections.abc import Iterable, Mapping
from itertools import pairwise

from apportion import native
from apportion.model.plan import Key
from apportion.placement.api import Placement, check_placement
from apportion.placement.keys.key_bytes import listed


def group_keys(placement: Placement, keys: Iterable[Key], *, threads: int = 1) -> dict[str, list[Key]]:
    """Return each node that handles a key, in the order of nodes, with its keys in the order passed. O(keys).

    >>> from apportion import Ring
    >>> group_keys(Ring(["a", "b", "c"]), ["tenant-1", "tenant-2", "tenant-3", "tenant-4"])
    {'a': ['tenant-3'], 'b': ['tenant-2', 'tenant-4'], 'c': ['tenant-1']}
    """
    given = list(listed(keys))
    places = group_places(placement, given, threads=threads)
    return {node_id: [given[place] for place in group] for node_id, group in places.items()}


def group_places(placement: Placement, keys: Iterable[Key], *, threads: int = 1) -> "Mapping[str, array[int]]":
    """Return the places in `keys` of each node's keys, ascending, as 64-bit numbers. O(keys).

    >>> from apportion import Ring
    >>> group_places(Ring(["a", "b", "c"]), ["tenant-1", "tenant-2", "tenant-3", "tenant-4"])["b"]
    array('Q', [1, 3])
    """
    check_placement("placement", placement, "route_indexes")
    indexes, ids = placement.route_indexes(keys, threads=threads), placement.topology.ids
    if native.IN_USE:
        ends, places = (array("Q", data) for data in native.extension.grouped(indexes, len(ids)))
        spans = pairwise((0, *ends))
        return {node_id: places[start:end] for node_id, (start, end) in zip(ids, spans, strict=True) if start < end}
    groups = {node_id: array("Q") for node_id in ids}
    for place, index in enumerate(indexes):
        groups[ids[index]].append(place)
    return {node_id: group for node_id, group in groups.items() if group}
