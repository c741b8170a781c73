"""Witnesses: how many partitions a group has, where one of the records that say so may be wrong.

Three records say it: that of the group, the target, which names an owner per partition, and those of ownership.
Promises: two that agree outweigh the third. A record of ownership that names an owner proves that its partition was
there: a resize waits until no member is there, and members that leave free what they own.
Refuses: to decide by one record alone while another contradicts it, unless leftovers of a resize do.
"""

from collections.abc import Iterable

from apportion.groups.view.view import View


def partitions_of(said: int | None, view: View, *, remembered: int | None = None) -> int | None:
    """Return how many partitions a group has; None where no record says it. O(partitions).

    `said` is the number in the record of the group, None where that is damaged; `remembered` is that of a process which
    was in the group: it decides between records that contradict each other. The view takes any partition.
    """
    target = None if view.target is None else len(view.target.owners)
    if said == target is not None:
        return said
    named = _most(each for each, of in view.own.items() if of.ownership.owner is not None or view.is_damaged(each))
    if remembered is not None and remembered in (said, target, named):
        return remembered
    if said is None and target is None:
        return _most(view.own)
    if said is None or target is None:
        return max(said or 0, target or 0, named or 0)
    owned = (_most(view.own) if named is None else named) or said
    return owned if owned == said else min((each for each in (said, target) if each >= owned), default=owned)


def _most(partitions: Iterable[int]) -> int | None:
    """Return one more than the highest of some partitions, None for none."""
    return max((each + 1 for each in partitions), default=None)
