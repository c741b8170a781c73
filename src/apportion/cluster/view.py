"""View: what one process knows of a group, as its store showed it; every decision is made from this.

Refuses: to judge records; `intake` does, and a record that cannot be right says nothing here.
"""

from apportion.cluster.intake import Intake
from apportion.cluster.records import QUARANTINE_DEATHS, Ownership, Target


class View(Intake):
    """All that is under `live/<group>/`, and the questions that are asked of it."""

    @property
    def is_led(self) -> bool:
        """Whether a session that is there is the controller."""
        leading = self.leading
        member_id, _, session = ("", "", "0") if leading is None else leading.holder.rpartition(" ")
        return self.session(member_id) == int(session)

    def session(self, member_id: str | None) -> int | None:
        """Return the session of a member that is there, else None."""
        there = self.members.get(member_id) if member_id is not None else None
        return None if there is None else there.session

    def is_live(self, ownership: Ownership) -> bool:
        """Whether the session that owns something still lives."""
        return ownership.owner is not None and self.session(ownership.owner) == ownership.session

    def is_settled(self, partition: int, wanted: str | None) -> bool:
        """Whether a partition belongs to a living session of whom it should, or to nobody where it should not.

        One whose record is damaged is as settled as it can be before a repair.
        """
        ownership = self.owned(partition).ownership
        if self.is_damaged(partition):
            return True
        if wanted is None or ownership.deaths >= QUARANTINE_DEATHS:
            return ownership.owner is None
        return ownership.owner == wanted and self.is_live(ownership)

    @property
    def is_at_rest(self) -> bool:
        """Whether every partition belongs to whom a target names that knows of all members. O(partitions)."""
        target = self.target
        if target is None or target.is_paused or not target.digest or self.keys.target in self.damaged:
            return False
        if not self.knows_all(target):
            return False
        return all(self.is_settled(partition, owner) for partition, owner in enumerate(target.owners))

    def knows_all(self, target: Target) -> bool:
        """Whether all members that may own were there when a target was decided. O(partitions)."""
        named = {*target.owners, *target.idle}
        may_own = (each for each, there in self.members.items() if there.record.weight and each not in self.drains)
        return all(each in named for each in may_own)

    def has_left(self, ownership: Ownership) -> bool:
        """Whether a static member ended the session that owns something by itself, and did not die."""
        static = self.statics.get(ownership.owner or "")
        return static is not None and static[0].left_session == ownership.session

    def wanted(self, member_id: str) -> frozenset[int]:
        """Return the partitions that a member should own. O(partitions) after a new target."""
        if member_id not in self._wanted:
            owners = () if self.target is None or self.target.is_paused else self.target.owners
            self._wanted[member_id] = frozenset(
                partition for partition, owner in enumerate(owners) if owner == member_id
            )
        return self._wanted[member_id]
