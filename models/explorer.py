"""Explorer: every state that can be reached, shortest way first, and from which of them all can still become good.

Promises: the first violation is one with the fewest steps; so is the state that is named as stuck. A state is stuck
when no steps but those without a fault lead from it to the goal, though every fault stops.
"""

import gc
from array import array
from collections.abc import Iterator
from itertools import pairwise
from time import monotonic
from typing import Generic, NamedTuple

from models.step import Explored, State, Step


class Report(NamedTuple, Generic[State]):
    """The result and the number of states; `trace` leads to the violation, or to the first stuck state."""

    states: int
    transitions: int
    depth: int
    highest: int
    stuck: int
    broken: str
    trace: tuple[Step[State], ...]
    seconds: float


class Explorer(Generic[State]):
    """All states of a world, numbered as they were found."""

    def __init__(self, world: Explored[State]) -> None:
        self.world = world
        self.states: list[State] = [world.initial]
        self._numbers = {world.initial: 0}
        self._parents = array("i", [-1])
        self._heads = array("i", [-1])  # of each state's list of steps without a fault that lead to it
        self._sources, self._nexts = array("i"), array("i")
        self._transitions = self._depth = 0

    def run(self) -> Report[State]:
        """Explore all; stop at the first violation."""
        start, broken = monotonic(), ""
        trace: tuple[Step[State], ...] = ()
        gc.disable()  # there are no circles in it, and looking for some takes longer than all the rest
        try:
            violation = self._violation()
        finally:
            gc.enable()
        stuck: list[int] = []
        if violation is None:
            stuck = self._stuck()
            broken = "Converge: the target cannot become so any more" if stuck else ""
            trace = tuple(self._trace(stuck[0])) if stuck else ()
        else:
            number, step = violation
            broken, trace = step.broken, (*self._trace(number), step)
        epochs = self.world.highest(self.states)
        counts = (len(self.states), self._transitions, self._depth, epochs, len(stuck))
        return Report(*counts, broken, trace, monotonic() - start)

    def _violation(self) -> tuple[int, Step[State]] | None:
        numbers, states, parents, heads = self._numbers, self.states, self._parents, self._heads
        level_end = 1
        for number, state in enumerate(states):
            if number == level_end:
                self._depth, level_end = self._depth + 1, len(states)
            for step in self.world.steps(state):
                if step.broken:
                    return number, step
                self._transitions += 1
                found = numbers.setdefault(step.state, len(states))
                if found == len(states):
                    states.append(step.state)
                    parents.append(number)
                    heads.append(-1)
                if not step.is_fault and found != number:
                    self._sources.append(number)
                    self._nexts.append(heads[found])
                    heads[found] = len(self._sources) - 1
        return None

    def _stuck(self) -> list[int]:
        """Return the states from which no goal is reached without a fault: all but those that lead to a goal."""
        hopeful = bytearray(len(self.states))
        waiting = array("i")
        for number, state in enumerate(self.states):
            if self.world.is_goal(state):
                hopeful[number] = 1
                waiting.append(number)
        while waiting:
            edge = self._heads[waiting.pop()]
            while edge >= 0:
                source = self._sources[edge]
                if not hopeful[source]:
                    hopeful[source] = 1
                    waiting.append(source)
                edge = self._nexts[edge]
        return [number for number, is_hopeful in enumerate(hopeful) if not is_hopeful]

    def _trace(self, number: int) -> Iterator[Step[State]]:
        way = [number]
        while way[-1]:
            way.append(self._parents[way[-1]])
        way.reverse()
        for here, there in pairwise(way):
            yield next(step for step in self.world.steps(self.states[here]) if step.state == self.states[there])
