"""Contest: queues that do the same work in turns, each at its own number of tasks per round; times are per task.

A round of a drain begins with waiting tasks. Its time is that from the start of a worker to the answer of the store,
opened anew, that no task is left. A queue that has not run each task just once is an error.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from bench.clock import Turn, race, speed_ratio, spread
from bench.goal import Goal
from bench.row import Row

Work = Callable[[], Awaitable[None]]


class DrainedQueue(Protocol):
    """A queue of numbered tasks, whose handler appends the number to `handled`."""

    name: str
    tasks: int
    handled: list[int]

    async def fill(self) -> None:
        """Add the tasks of a round."""

    async def drain(self) -> None:
        """Run all tasks, close the store, and open it again to see that no task is left."""


def drained(queues: Sequence[DrainedQueue], *, rounds: int) -> dict[str, list[int]]:
    """Fill and drain the queues in turns; return nanoseconds per task of each round, by name."""
    with asyncio.Runner() as runner:

        def _turn(queue: DrainedQueue) -> Turn:
            def _drain() -> None:
                runner.run(queue.drain())

            return _drain

        turns = {queue.name: _turn(queue) for queue in queues}
        fills = {turns[queue.name]: queue for queue in queues}
        for queue in queues:
            runner.run(queue.fill())
        times = race(turns, rounds=rounds, before=lambda turn: runner.run(fills[turn].fill()))
    for queue in queues:
        if Counter(queue.handled) != Counter(dict.fromkeys(range(queue.tasks), 1 + rounds)):
            raise RuntimeError(f"{queue.name} has not run each task once: {len(queue.handled)} runs")
    return {queue.name: [each // queue.tasks for each in times[queue.name]] for queue in queues}


async def repeated(works: Mapping[str, Work], *, rounds: int, calls: int) -> dict[str, list[int]]:
    """Do each work so many times over, one after another, in turns; return nanoseconds per call of each round."""
    loop, times = asyncio.get_running_loop(), dict[str, list[int]]()
    for number in range(1 + rounds):  # the first is not counted: files grow to their size
        for name, work in works.items():
            began = loop.time()
            for _ in range(calls):
                await work()
            if number:
                times.setdefault(name, []).append(round((loop.time() - began) * 1e9 / calls))
    return times


def compared(what: str, ours_ns: list[int], other: str, other_ns: list[int], goal: Goal | None) -> Row:
    """Return the row of our speed over that of another."""
    ratio, each = speed_ratio(other_ns, ours_ns), spread(ours_ns, calls=1_000)
    shown = f"{ratio.shown(f'x {other}', digits=2)}, {1e6 / each.median:.0f} per second"
    met = None if goal is None else goal.is_met(ratio.median)
    return Row(name=what, value=ratio.median, shown=shown, goal=None if goal is None else str(goal), met=met)
