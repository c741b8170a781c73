"""Settled: whether the partitions of a group have the owners that its target names."""

from apportion.groups.crash_loops import is_quarantined
from apportion.groups.view.records import Target
from apportion.groups.view.view import View


def is_settled(view: View, partition: int, wanted: str | None) -> bool:
    """Whether a partition needs no move: the wanted member owns it, or none is wanted and none owns it.

    A partition with a damaged record counts as settled, because only a repair can change it. A partition in quarantine
    also counts as settled, if a member is wanted.
    """
    ownership = view.owned(partition).ownership
    if view.is_damaged(partition):
        return True
    if wanted is None:
        return ownership.owner is None
    return is_quarantined(view, partition) or (ownership.owner == wanted and view.is_live(ownership))


def is_at_rest(view: View) -> bool:
    """Whether every partition is settled under a target that knows of all members. O(partitions)."""
    target = view.target
    if target is None or target.is_paused or not target.digest or view.keys.target in view.damaged:
        return False
    if not knows_all(view, target):
        return False
    return all(is_settled(view, partition, owner) for partition, owner in enumerate(target.owners))


def knows_all(view: View, target: Target) -> bool:
    """Whether all members that may own partitions were there when a target was decided. O(partitions)."""
    named = {*target.owners, *target.idle}
    may_own = (each for each, there in view.members.items() if there.record.weight and each not in view.drains)
    return all(each in named for each in may_own)
