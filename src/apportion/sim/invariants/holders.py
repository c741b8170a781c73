"""Holders: the process of every lease, to tell a lapsed session from one with a dead process.

Promises: a lease is no lapse if its process gave it back, or was killed before the lease ended.
Refuses: leases without a key. No process sees their end, and none waits for them.
"""

from collections.abc import Iterator

from apportion.sim.facts import Began, Changed, Died, Fact, Granted, Lapsed, Revoked
from apportion.sim.invariants.history import History


class Holders:
    """The leases that processes hold. `lapses` takes each fact after the history has taken it."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._of: dict[int, str] = {}
        self._with_keys: set[int | None] = set()

    def held_by(self, process: str) -> list[int]:
        """Return the leases of a process that were not given back, and are not known to have ended."""
        return [lease for lease, holder in self._of.items() if holder == process]

    def lapses(self, fact: Fact) -> Iterator[Lapsed]:
        """Yield the lapses that a fact shows."""
        match fact:
            case Granted(process=process) if process:
                self._of[fact.lease] = process
            case Died():
                self._of = {lease: process for lease, process in self._of.items() if process != fact.process}
            case Revoked():
                self._of.pop(fact.lease, None)
            case Began() | Changed():
                before = self._with_keys
                self._with_keys = {item.lease for item in self._history.items.values()}
                if isinstance(fact, Began) or self._history.attempt is None:
                    yield from self._ended(before - self._with_keys, fact)

    def _ended(self, leases: set[int | None], fact: Began | Changed) -> Iterator[Lapsed]:
        for lease in sorted(each for each in leases if each is not None and each in self._of):
            yield Lapsed(at=fact.at, process=self._of.pop(lease), incarnation=fact.incarnation, lease=lease)
