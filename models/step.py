"""Step: the next steps that any world reports, and the calls that the explorer makes on a world."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

State = TypeVar("State", bound=Hashable)


class Step(NamedTuple, Generic[State]):
    """The event and its process, the state after it, whether it was a fault, and the broken promise (none: empty)."""

    kind: str
    slot: int
    state: State
    is_fault: bool = False
    broken: str = ""


class Explored(Protocol[State]):
    """A world: all that may happen, from one state on."""

    initial: State

    def steps(self, state: State) -> Iterator[Step[State]]:
        """Yield all that may happen next."""
        ...

    def is_goal(self, state: State) -> bool:
        """Whether all is well in a state, so that nothing more is hoped for."""
        ...

    def highest(self, states: Sequence[State]) -> int:
        """Return the highest number that was granted to anybody."""
        ...
