"""View: what one process knows of a group, as its store showed it; every decision is made from this.

Refuses: to judge records; `intake` does, and a record that cannot be right says nothing here.
"""

from apportion.groups.view.intake import Intake, SeenOwnership
from apportion.groups.view.records import GroupKeys, GroupRecord, OwnershipRecord


class View(Intake):
    """All that is under `live/<group>/`, and the questions that are asked of it."""

    @classmethod
    def of(cls, keys: GroupKeys, record: GroupRecord) -> "View":
        """Return the view of a group that is as its record says."""
        return cls(keys, record.partitions, mode=record.mode, quarantine_after=record.quarantine_after)

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

    def is_live(self, ownership: OwnershipRecord) -> bool:
        """Whether the session that owns something still lives."""
        return ownership.owner is not None and self.session(ownership.owner) == ownership.session

    def gone_at(self, owned: SeenOwnership) -> float:
        """Return when this process saw the owner's session gone; the first look at the record, if not earlier."""
        return max(owned.since, self.gone.get(owned.ownership.session, owned.since))

    def wanted(self, member_id: str) -> frozenset[int]:
        """Return the partitions that a member should own. O(partitions) after a new target."""
        if member_id not in self._wanted:
            owners = () if self.target is None or self.target.is_paused else self.target.owners
            self._wanted[member_id] = frozenset(
                partition for partition, owner in enumerate(owners) if owner == member_id
            )
        return self._wanted[member_id]
