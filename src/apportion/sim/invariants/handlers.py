"""Handling: what must hold for handlers of a group, whoever wrote them: they work only on what is held for them.

Held, with the invariants of groups, in every world in which a process opens what `apportion` offers. It looks at writes
that are made by `Sink.put`; what it finds is in most cases a task that a handler began and nobody ended.
"""

from collections.abc import Callable

from apportion.sim.facts import Entered, Writing
from apportion.sim.invariants import groups
from apportion.sim.invariants.history import History
from apportion.sim.invariants.orphans import BoundedOrphan
from apportion.sim.invariants.store import Invariant


class WritesAreHeld(Invariant):
    """Under a token that a process has held, by `hold` or `serve`, it writes while it holds it, and not afterwards.

    A process that was paused still holds what it held, until it has looked at its clock: that write is for the sink to
    refuse. Who only listens to `changes`, and holds nothing, is not judged.
    """

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._held: set[tuple[str, str, int, int]] = set()

    def entered(self, fact: Entered) -> None:
        """Remember what was held."""
        self._held.add(_grant(fact))

    def writing(self, fact: Writing) -> None:
        """Look for a hold."""
        if _grant(fact) in self._held and not any(_grant(hold) == _grant(fact) for hold in self.history.holds.values()):
            token = f"{fact.incarnation}:{fact.epoch}"
            self.broken(f"{fact.process} writes {fact.resource} under {token} after its work on it had ended")


def _grant(fact: Entered | Writing) -> tuple[str, str, int, int]:
    return fact.process, fact.resource, fact.incarnation, fact.epoch


INVARIANTS: tuple[type[Invariant], ...] = (*groups.INVARIANTS, BoundedOrphan, WritesAreHeld)
