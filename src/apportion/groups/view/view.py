"""View: the state of a group as its store showed it to one process, and the base of each decision.

Refuses: to judge records. `intake` judges them, and a damaged record has no effect here.
"""

from apportion.groups.view.intake import Intake, SeenOwnership
from apportion.groups.view.records import OwnershipRecord


class View(Intake):
    """All records under `live/<group>/`, and the questions about them."""

    @property
    def is_led(self) -> bool:
        """Whether the controller's session is live."""
        return self.leading is not None and self.session(self.leading.member_id) == self.leading.session

    def session(self, member_id: str | None) -> int | None:
        """Return the session of a live member; None for any other id."""
        there = self.members.get(member_id) if member_id is not None else None
        return None if there is None else there.session

    def is_live(self, ownership: OwnershipRecord) -> bool:
        """Whether the session in an ownership record still lives."""
        return ownership.owner is not None and self.session(ownership.owner) == ownership.session

    def gone_at(self, owned: SeenOwnership) -> float:
        """Return when this process saw the end of the owner's session, or first saw this owner if that was later."""
        return max(owned.since, self.gone.get(owned.ownership.session, owned.since))

    def wanted(self, member_id: str) -> frozenset[int]:
        """Return the partitions that a member should own. O(partitions) after a new target."""
        if member_id not in self._wanted:
            owners = () if self.target is None or self.target.is_paused else self.target.owners
            self._wanted[member_id] = frozenset(
                partition for partition, owner in enumerate(owners) if owner == member_id
            )
        return self._wanted[member_id]
