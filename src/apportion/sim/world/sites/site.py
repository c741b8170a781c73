"""Site: one store of a world, with its ways through the network, its faults, its lives, and its history.

A world has one site. With a store of its own for groups, it has two: the first has the tasks.
Promises: no fault, life or lease of a site touches another site. All sites tell their facts in one trace, in the order
of true time, and report to one list of violations.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Protocol

from apportion.runtime.clock import Clock
from apportion.sim.facts import Fact
from apportion.sim.invariants.holders import Holders
from apportion.sim.invariants.store import Checker, Invariant, Violation
from apportion.sim.world.backings import Backing
from apportion.sim.world.faults import FaultyStore
from apportion.sim.world.network import STORE, Network
from apportion.sim.world.trace import Trace
from apportion.sim.world.troubles import Troubles
from apportion.stores import CoordinationStore

MakeBacking = Callable[[Clock, Callable[[], float]], Backing]


class Surroundings(Protocol):
    """The parts of a world that its sites share."""

    network: Network
    trace: Trace

    @property
    def now(self) -> float:
        """The true time."""

    def draws(self, purpose: str) -> Random:
        """Return a random source for one purpose."""


class Site:
    """One store. Each of its `places` in the network has its own `troubles`. The first place serves the records."""

    def __init__(
        self,
        world: Surroundings,
        backing: Backing,
        *places: str,
        invariants: Iterable[type[Invariant]] | None,
        violations: list[Violation],
    ) -> None:
        self.world: Surroundings = world
        self.backing: Backing = backing
        self._trace = world.trace
        ttl_seconds: dict[str, float] = {}
        self.troubles: tuple[Troubles, ...] = tuple(
            Troubles(
                world.draws("troubles" if place == STORE else f"{place.removesuffix('s')} troubles"),
                world.network,
                world.trace,
                record=self.record,
                place=place,
                ttl_seconds=ttl_seconds,
            )
            for place in places
        )
        self.checker: Checker = Checker(invariants, violations)
        self.holders: Holders = Holders(self.checker.history)
        self.listeners: list[Callable[[Fact], None]] = []
        self.is_closed: bool = False

    @property
    def place(self) -> str:
        """The name of the store in the network."""
        return self.troubles[0].place

    def handle(self, name: str, clock: Clock) -> CoordinationStore:
        """Return a new handle for a process, with the faults of this site in between."""
        inner, incarnation = self.backing.handle(clock), self.backing.incarnation
        return FaultyStore(name, inner, self.troubles[0], incarnation=incarnation, now=self.world.now)

    def restore(self, copy: object, why: str) -> None:
        """Replace the data by an old copy: another life of the store begins, and old connections end."""
        self._trace.say(f"the {self.place} {why}")
        for each in self.troubles:
            each.begin_life()
        self.backing.restore(copy)
        self.look()

    def look(self) -> None:
        """Record the changes since the last look."""
        for fact in self.backing.look():
            self.record(fact)

    def record(self, fact: Fact) -> None:
        """Take a fact of this store: write it to the trace, and check it."""
        if not self.is_closed:
            self._trace.tell(fact, "" if self.place == STORE else f"{self.place}: ")
            self.take(fact)

    def take(self, fact: Fact) -> None:
        """Check a fact against the invariants, and pass it to `listeners`."""
        self.checker.add(fact)
        for listener in self.listeners:
            listener(fact)
        for lapsed in self.holders.lapses(fact):
            self.record(lapsed)

    def forget(self, process: str) -> None:
        """Forget the handles of a process, which is dead."""
        for each in self.troubles:
            del each.open_handles[process]
