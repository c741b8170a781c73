"""Ownership: what the scenario keeps under `own/<resource>`, and what must hold for it.

A record is never deleted, and its epoch grows whenever its owner changes. These invariants are held where they are
asked for, as the scenario does: in a world of others such keys may mean anything.
"""

import json
from dataclasses import dataclass

from apportion.sim.facts import Changed
from apportion.sim.invariants import Invariant


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """What `own/<resource>` says: who owns it (None: nobody), in which session, and since which epoch."""

    owner: str | None
    session: int
    epoch: int


def ownership(value: bytes) -> Ownership:
    """Read the value of an ownership record."""
    said = json.loads(value)
    return Ownership(owner=said["owner"], session=said["session"], epoch=said["epoch"])


class OwnersKeepTheirEpoch(Invariant):
    """An ownership record stays; its epoch never goes back, and grows whenever its owner changes."""

    def changed(self, fact: Changed) -> None:
        """Look at ownership records."""
        for key, item in fact.items:
            if not key.startswith("own/"):
                continue
            before = self.history.items.get(key)
            if item is None:
                self.broken(f"{key} was deleted at {fact.revision}")
            elif before is not None:
                self._compare(key, ownership(before.value), ownership(item.value))

    def _compare(self, key: str, old: Ownership, new: Ownership) -> None:
        if new.epoch < old.epoch:
            self.broken(f"{key} went back from epoch {old.epoch} to {new.epoch}")
        if new.epoch == old.epoch and (new.owner, new.session) != (old.owner, old.session):
            self.broken(f"{key} went from {old.owner} to {new.owner} within epoch {new.epoch}")


class LiveOwnersAreAsked(Invariant):
    """What a live session owns goes to another only by that session's own commit."""

    def changed(self, fact: Changed) -> None:
        """Look at who gave away what."""
        attempt = self.history.cause.attempt
        for key, item in fact.items:
            before = self.history.items.get(key)
            if item is None or before is None or not key.startswith("own/"):
                continue
            old, new = ownership(before.value), ownership(item.value)
            member = self.history.items.get(f"member/{old.owner}")
            is_live = member is not None and member.revision == old.session
            if is_live and new.owner != old.owner and (attempt is None or attempt.asked.process != old.owner):
                self.broken(f"{key} was taken from {old.owner}, whose session {old.session} lives, by {new.owner}")


INVARIANTS: tuple[type[Invariant], ...] = (OwnersKeepTheirEpoch, LiveOwnersAreAsked)
