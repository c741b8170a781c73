"""Living: what the store shows or answers ends nobody for good, whatever it is."""

from apportion.sim.facts import Failed
from apportion.sim.invariants.store import Invariant


class NobodyFails(Invariant):
    """No error leaves a process: whatever fails in or around the store, who takes part goes on or comes back."""

    def failed(self, fact: Failed) -> None:
        """Break: nothing that a world does to a process is the fault of its program."""
        self.broken(f"{fact.process} ended with {fact.error}")


INVARIANTS: tuple[type[Invariant], ...] = (NobodyFails,)
