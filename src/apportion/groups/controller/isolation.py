"""Isolation: sends the partitions that one death has freed to different members, to separate the deadly partition.

A balancer does not know of deaths. So its answer is changed afterwards by exchanges of partitions, which leave the
number per member the same; docs/decisions/0017-crash-loops.md has the reasons.

Promises: a suspect is a partition whose owners died at least twice in a row. Each of these deaths doubles its
weight. If the suspects without an owner are not too many, they are placed one by one, the heaviest first. Each suspect
goes to the member on which the other suspects together weigh least, if that member can exchange a partition. Exchanges
take partitions without an owner first, then partitions that move anyway, then others. A partition with a live owner is
exchanged only for a clear gain: the other suspects of the old member must weigh more than those of the new member, by
at least this suspect's weight. If a member must give partitions away, those without deaths are chosen first.
"""

from collections import Counter
from collections.abc import Iterator

from apportion.balance.api import Owners
from apportion.groups.crash_loops import ended
from apportion.groups.view.view import View

_ENDED = 2  # one death is no proof, because it counts against every partition of the dead owner
_FEW = 16  # the most suspects that are placed one by one, or the number of members if that is higher
_FREE, _PLANNED, _LIVE = range(3)


def isolated(owners: Owners, view: View) -> Owners:
    """Return a target with the suspects separated. O(partitions), and O(suspects × members) if there are some."""
    return _kept(_spread(owners, view), view) if any(each.ownership.ended for each in view.own.values()) else owners


def _spread(owners: Owners, view: View) -> Owners:
    members = sorted({owner for owner in owners if owner is not None})
    suspects = sorted(_suspects(owners, view), key=lambda each: -len(ended(view, each)))
    if not 0 < len(suspects) <= max(_FEW, len(members)):
        return owners
    after, offers, burdens = list(owners), _offers(owners, view, frozenset(suspects)), _burdens(owners, view)
    for suspect in suspects:
        source, turn = after[suspect] or "", view.owned(suspect).ownership.session % len(members)
        weight = _weight(view, suspect)
        burdens[source] -= weight
        target = min(members[turn:] + members[:turn], key=burdens.__getitem__)
        price = _LIVE if burdens[source] - burdens[target] >= weight else _FREE
        if target != source and offers[target] and offers[target][0][0] <= price:
            _, other = offers[target].pop(0)
            after[suspect], after[other] = target, source
        burdens[after[suspect] or ""] += weight
    return tuple(after)


def _weight(view: View, partition: int) -> int:
    """Return the weight of a partition as a suspect: each death doubles it."""
    count = len(ended(view, partition))
    return 1 << count if count >= _ENDED else 0


def _burdens(owners: Owners, view: View) -> Counter[str]:
    """Return the weight of all suspects per member, including suspects that are served."""
    burdens = Counter[str]()
    for partition in view.own:
        if (owner := owners[partition]) is not None:
            burdens[owner] += _weight(view, partition)
    return burdens


def _kept(owners: Owners, view: View) -> Owners:
    """Let each owner keep its served suspects; a partition without deaths moves instead."""
    after, movers, clean = list(owners), list[tuple[int, str]](), dict[str, list[int]]()
    for partition, owned in view.own.items():
        owner = owned.ownership.owner
        if owner is not None and view.is_live(owned.ownership):
            if not owned.ownership.ended and after[partition] == owner:
                clean.setdefault(owner, []).append(partition)
            elif _weight(view, partition) and after[partition] not in (None, owner):
                movers.append((partition, owner))
    for partition, owner in movers:
        if clean.get(owner):
            other = clean[owner].pop()
            after[partition], after[other] = owner, after[partition]
    return tuple(after)


def _suspects(owners: Owners, view: View) -> Iterator[int]:
    """Yield the partitions without a live owner under which two sessions in a row have ended."""
    for partition, owned in view.own.items():
        is_planned, is_live = owners[partition] is not None, view.is_live(owned.ownership)
        if is_planned and not is_live and len(ended(view, partition)) >= _ENDED:
            yield partition


def _offers(owners: Owners, view: View, suspects: frozenset[int]) -> dict[str, list[tuple[int, int]]]:
    """Return the offers of each member for exchange: prices and partitions, the cheapest first."""
    before = (None,) * len(owners) if view.target is None else view.target.owners
    found: dict[str, list[tuple[int, int]]] = {owner: [] for owner in owners if owner is not None}
    for partition, (old, new) in enumerate(zip(before, owners, strict=True)):
        if new is not None and partition not in suspects:
            is_live = view.is_live(view.owned(partition).ownership)
            price = _FREE if not is_live else _PLANNED if old != new else _LIVE
            found[new].append((price, partition))
    return {owner: sorted(offers) for owner, offers in found.items()}
