"""Children: processes of a world that belong to another process and run one coroutine each.

Promises: a child ends with its parent, with its coroutine, and when the caller in its parent is cancelled. A fault
that kills it is seen by its parent as the end of the child. The names of children stand in brackets, so that a nemesis
takes no child for a member.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

from apportion.sim.world.machine import WorldMachine
from apportion.sim.world.process import Processes, outside

Result = TypeVar("Result")


class ChildProcesses:
    """The children of all processes of one world. `machine` makes a machine, and `kill` kills a process."""

    def __init__(
        self, processes: Processes, machine: Callable[[str], WorldMachine], kill: Callable[[str], None]
    ) -> None:
        self._processes, self._machine, self._kill = processes, machine, kill
        self._of: dict[str, dict[str, asyncio.Future[Any]]] = {}
        self._count = 0

    @property
    def names(self) -> list[str]:
        """The children that live, sorted."""
        return sorted(name for children in self._of.values() for name in children)

    async def run(self, parent: str, work: Coroutine[object, object, Result]) -> Result | None:
        """Run a coroutine in a new child of a process; None if the child ended before the coroutine returned."""
        self._count += 1
        name = f"(child {self._count} of {parent})"
        process = self._processes.living(name)
        process.machine = self._machine(name)
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Result | None] = loop.create_future()
        self._of.setdefault(parent, {})[name] = ended
        task = loop.create_task(work, context=process.context())
        task.add_done_callback(partial(_tell, ended), context=outside())
        try:
            return await ended
        finally:
            children = self._of.get(parent, {})
            if children.get(name) is ended and not task.done():
                self._kill(name)
            children.pop(name, None)

    def ended(self, name: str) -> None:
        """Note that a process was killed: its children end too, and the parent of a child learns of its end."""
        for child in self._of.pop(name, {}):
            self._kill(child)
        for children in self._of.values():
            if (ended := children.get(name)) is not None and not ended.done():
                ended.set_result(None)


def _tell(ended: "asyncio.Future[Result | None]", task: "asyncio.Task[Result]") -> None:
    if not ended.done():
        is_whole = not task.cancelled() and task.exception() is None
        ended.set_result(task.result() if is_whole else None)
