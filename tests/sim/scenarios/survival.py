"""Living: no state or answer of the store ends a process for good."""

from apportion.sim.facts import Failed
from apportion.sim.invariants.store import Invariant


class NobodyFails(Invariant):
    """No error leaves a process: whatever fails in or around the store, every member goes on or comes back."""

    def failed(self, fact: Failed) -> None:
        """Break: no fault that a world injects may end a program."""
        self.broken(f"{fact.process} ended with {fact.error}")
