"""Isolation: partitions whose owners died together go to different members, so that the innocent part from the guilty.

An innocent partition that shares its members with a deadly one would wait as long as that. A balancer knows nothing of
deaths, so its answer is exchanged afterwards: no member gets more or less.

Promises: of a few partitions without an owner under which two sessions ended, no member gets two more than another that
has something to exchange. Exchanges take partitions without an owner first, then those that move anyway, then others.
A lone suspect goes to another member each time, where that moves nothing that is served.
"""

from collections import Counter
from collections.abc import Iterator

from apportion.balance.api import Owners
from apportion.cluster.deaths import ended
from apportion.cluster.view import View

_ENDED = 2  # one death says nothing: every partition of that owner has it
_FEW = 16  # or as many as members: beyond that an even share is all that can be had
_FREE, _PLANNED, _LIVE = range(3)


def isolated(owners: Owners, view: View) -> Owners:
    """Return a target with suspects apart. O(partitions), and O(suspects × members) where there are some."""
    members = sorted({owner for owner in owners if owner is not None})
    suspects = tuple(_suspects(owners, view))
    if not 0 < len(suspects) <= max(_FEW, len(members)):
        return owners
    after, offers = list(owners), _offers(owners, view, frozenset(suspects))
    burdens = Counter(filter(None, (owners[each] for each in suspects)))
    for suspect in suspects:
        source, turn = after[suspect] or "", view.owned(suspect).ownership.session % len(members)
        burdens[source] -= 1
        target = min(members[turn:] + members[:turn], key=burdens.__getitem__)
        price = _LIVE if burdens[target] < burdens[source] else _FREE
        if target != source and offers[target] and offers[target][0][0] <= price:
            _, other = offers[target].pop(0)
            after[suspect], after[other] = target, source
        burdens[after[suspect] or ""] += 1
    return tuple(after)


def _suspects(owners: Owners, view: View) -> Iterator[int]:
    """Yield the partitions without a live owner under which two sessions in a row have ended."""
    for partition, owned in view.own.items():
        is_known = partition < len(owners) and owners[partition] is not None
        if is_known and len(ended(view, partition)) >= _ENDED and not view.is_live(owned.ownership):
            yield partition


def _offers(owners: Owners, view: View, suspects: frozenset[int]) -> dict[str, list[tuple[int, int]]]:
    """Return what each member may exchange: prices and partitions, the cheapest first."""
    before = (None,) * len(owners) if view.target is None else view.target.owners
    found: dict[str, list[tuple[int, int]]] = {owner: [] for owner in owners if owner is not None}
    for partition, (old, new) in enumerate(zip(before, owners, strict=True)):
        if new is not None and partition not in suspects:
            is_live = view.is_live(view.owned(partition).ownership)
            price = _FREE if not is_live else _PLANNED if old != new else _LIVE
            found[new].append((price, partition))
    return {owner: sorted(offers) for owner, offers in found.items()}
