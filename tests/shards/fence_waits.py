"""Counts how often this process waits for servers of PostgreSQL while writers of a move wait too."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any
from unittest.mock import patch

import psycopg

from apportion.shards.mover import MoveEvent

# The rows of a COPY are a stream: the driver takes one after another, and waits for none of them alone.
_STREAMED = frozenset({"_read_gen", "copy_to"})


class Waits:
    """The observer of a mover. It counts the waits from the end of each step `fence` to the end of the step `switch`.

    A statement, a script, and a COMMIT are one wait each. `steps` are the steps of the last switch, each with the
    number of waits up to its end. `counts` and `seconds` have an entry for each switch. `acts` are called at the end of
    a step.
    """

    def __init__(self, **acts: Callable[[], None]) -> None:
        self.steps: dict[str, int] = {}
        self.counts: list[int] = []
        self.seconds: list[float] = []
        self._acts, self._total, self._began = acts, 0, (0, 0.0)

    def __call__(self, event: MoveEvent) -> None:
        """Take the end of a step."""
        if event.step in self._acts:
            self._acts[event.step]()
        if event.step == "fence":
            self._began, self.steps = (self._total, perf_counter()), {}
        else:
            self.steps[event.step] = self._total - self._began[0]
        if event.step == "switch":
            self.counts.append(self.steps["switch"])
            self.seconds.append(perf_counter() - self._began[1])

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count all waits of the block."""
        wait: Any = psycopg.AsyncConnection.wait

        async def _counted(connection: object, generator: Any, *rest: Any, **more: Any) -> Any:
            self._total += generator.__name__ not in _STREAMED
            return await wait(connection, generator, *rest, **more)

        with patch.object(psycopg.AsyncConnection, "wait", _counted):
            yield
