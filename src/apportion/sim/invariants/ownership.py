"""Ownership: the invariants of ownership records, of a group or of the store's scenario.

A record, `own/<resource>`, is never deleted, and its epoch grows whenever its owner changes. These invariants are
checked on request, and once a process opens a part of `apportion`. In other worlds such keys may mean anything.
"""

from apportion.groups.view.keys import GroupKeys
from apportion.groups.view.records import OwnershipRecord, decoded
from apportion.sim.facts import Changed
from apportion.sim.invariants.store import Invariant


def ownership(value: bytes) -> OwnershipRecord:
    """Read the value of an ownership record."""
    return decoded(OwnershipRecord, value)


class OwnersKeepTheirEpoch(Invariant):
    """An ownership record stays; its epoch never goes back, and grows whenever its owner changes."""

    def changed(self, fact: Changed) -> None:
        for key, item in fact.items:
            if GroupKeys.parsed(key)[1] != "own":
                continue
            before = self.history.item(key)
            if item is None:
                self.broken(f"{key} was deleted at {fact.revision}")
            elif before is not None:
                self._compare(key, ownership(before.value), ownership(item.value))

    def _compare(self, key: str, old: OwnershipRecord, new: OwnershipRecord) -> None:
        if new.epoch < old.epoch:
            self.broken(f"{key} went back from epoch {old.epoch} to {new.epoch}")
        if new.epoch == old.epoch and (new.owner, new.session) != (old.owner, old.session):
            self.broken(f"{key} went from {old.owner} to {new.owner} within epoch {new.epoch}")


class LiveOwnersAreAsked(Invariant):
    """A resource of a live session goes to another owner only by that session's own commit."""

    def changed(self, fact: Changed) -> None:
        attempt = self.history.attempt
        for key, item in fact.items:
            before, (room, kind, _) = self.history.item(key), GroupKeys.parsed(key)
            if item is None or before is None or kind != "own":
                continue
            old, new = ownership(before.value), ownership(item.value)
            member = self.history.item(f"{room}member/{old.owner}")
            if member is None or member.revision != old.session or (new.owner, new.session) == (old.owner, old.session):
                continue
            process = self.history.writer(member.key, member.revision, old.owner)
            if attempt is None or attempt.asked.process != process:
                self.broken(f"{key} was taken from {old.owner}, though its session {old.session} lives, by {new.owner}")


INVARIANTS: tuple[type[Invariant], ...] = (OwnersKeepTheirEpoch, LiveOwnersAreAsked)
