"""Handlers: the invariant of all handlers of a group: a handler works only on resources that are held for it.

The world checks it together with the invariants of groups, as soon as a process opens a part of `apportion`. It looks
at writes by `Sink.put`. In most cases it finds a task that a handler began and never ended.
"""

from collections.abc import Callable

from apportion.sim.facts import Entered, Writing
from apportion.sim.invariants import groups
from apportion.sim.invariants.history import History
from apportion.sim.invariants.orphans import BoundedOrphan
from apportion.sim.invariants.store import Invariant


class WritesAreHeld(Invariant):
    """A process writes under a token of `hold` or `serve` only while the hold is open, and not afterwards.

    The holds of a paused process stay open until it has looked at its clock. The sink must refuse its writes
    meanwhile. A process that only listens to `changes`, and holds nothing, is not judged.
    """

    def __init__(self, history: History, report: Callable[[str, str], None]) -> None:
        super().__init__(history, report)
        self._held: set[tuple[str, str, int, int]] = set()

    def entered(self, fact: Entered) -> None:
        self._held.add(_grant(fact))

    def writing(self, fact: Writing) -> None:
        if _grant(fact) in self._held and not any(_grant(hold) == _grant(fact) for hold in self.history.holds.values()):
            token = f"{fact.incarnation}:{fact.epoch}"
            self.broken(f"{fact.process} writes {fact.resource} under {token} after its work on it had ended")


def _grant(fact: Entered | Writing) -> tuple[str, str, int, int]:
    return fact.process, fact.resource, fact.incarnation, fact.epoch


INVARIANTS: tuple[type[Invariant], ...] = (*groups.INVARIANTS, BoundedOrphan, WritesAreHeld)
