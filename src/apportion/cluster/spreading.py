"""Spreading: what may be deadly goes to as many members as there are, so that each tries as few as can be.

Balancers know nothing of deaths. Only who takes over what without an owner is exchanged here: no member gets more or
less, and nothing that is served moves.
"""

from collections import Counter, deque

from apportion.balance.api import Owners
from apportion.cluster.poison import SUSPECT_DEATHS
from apportion.cluster.records import QUARANTINE_DEATHS
from apportion.cluster.view import View


def spread(owners: Owners, view: View) -> Owners:
    """Return a target in which who would get several suspects has exchanged them for other orphans. O(partitions)."""
    if not any(own.ownership.deaths for own in view.own.values()):
        return owners
    orphans = [
        each
        for each, owner in enumerate(owners)
        if owner is not None and not view.is_live(view.owned(each).ownership) and not _is_quarantined(view, each)
    ]
    suspects = [each for each in orphans if _is_suspect(view, each)]
    burdens = Counter(owners[each] for each in suspects)
    burdens.update(own.ownership.owner for each, own in view.own.items() if _is_tried(view, each))
    others = deque(each for each in orphans if not burdens[owners[each]])
    after = list(owners)
    for suspect in suspects:
        while others and burdens[after[others[0]]]:
            others.popleft()
        if others and burdens[after[suspect]] > 1:
            other = others.popleft()
            burdens[after[suspect]] -= 1
            after[suspect], after[other] = after[other], after[suspect]
            burdens[after[suspect]] += 1
    return tuple(after)


def _is_suspect(view: View, partition: int) -> bool:
    """Whether it may be one for whoever takes it next; to take it from a dead owner may count one more death."""
    ownership = view.owned(partition).ownership
    return ownership.deaths + (ownership.owner is not None) >= SUSPECT_DEATHS


def _is_tried(view: View, partition: int) -> bool:
    ownership = view.owned(partition).ownership
    return view.is_live(ownership) and ownership.deaths >= SUSPECT_DEATHS


def _is_quarantined(view: View, partition: int) -> bool:
    ownership = view.owned(partition).ownership
    return ownership.owner is None and ownership.deaths >= QUARANTINE_DEATHS
