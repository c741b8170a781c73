"""huey: a queue in an SQLite file. It deletes a task before it runs it, so that a killed worker loses it.

Each write is flushed, as by default (`synchronous=FULL`).
"""

from pathlib import Path
from typing import Any

from bench.contender import installed, missing

VERSION, ABSENT = installed("huey"), missing("huey")


class Huey:
    """The queue in one file, with a worker of one thread: this one. Its consumer does no less per task."""

    def __init__(self, file: Path, *, tasks: int) -> None:
        self.name, self.tasks = VERSION, tasks
        self.handled: list[int] = []
        self._file = file

    async def fill(self) -> None:
        queue, handle = self._made()
        for number in range(self.tasks):
            handle(number)
        queue.storage.close()

    async def drain(self) -> None:
        queue, _ = self._made()
        while (task := queue.dequeue()) is not None:
            queue.execute(task)
        queue.storage.close()
        queue, _ = self._made()
        left = queue.pending_count()
        queue.storage.close()
        if left:
            raise RuntimeError(f"{left} tasks are left after a drain")

    def _made(self) -> tuple[Any, Any]:
        from huey import SqliteHuey  # noqa: PLC0415 - perhaps not installed

        queue = SqliteHuey("bench", filename=str(self._file), results=False)
        return queue, queue.task(name="handle")(self.handled.append)
