"""Our queue, as a program uses it: a queue object per round, a worker of 100, and a look after the queue was closed."""

from collections.abc import Coroutine

import apportion
from apportion.work.call import Call
from apportion.work.function import TaskFunction
from bench.queues import AT_ONCE

CONCURRENCY, PARTITIONS = 100, 64


class OurQueue:
    """The queue of a URL, in a namespace of its own; with `keys`, its tasks have so many keys, in turns."""

    def __init__(self, url: str, *, tasks: int, name: str = "ours", keys: int | None = None) -> None:
        self.name, self.tasks, self._keys = name, tasks, keys
        self.handled: list[int] = []
        self._url = url

    async def fill(self) -> None:
        queue, handle = self.opened()
        for begin in range(0, self.tasks, AT_ONCE):
            numbers = range(begin, min(begin + AT_ONCE, self.tasks))
            await queue.enqueue_many([self._keyed(handle.call(number), number) for number in numbers])
        await queue.close()

    def _keyed(self, call: Call, number: int) -> Call:
        return call if self._keys is None else call.options(key=f"key-{number % self._keys}")

    async def drain(self) -> None:
        queue, handle = self.opened()
        async with queue.worker(concurrency=CONCURRENCY) as worker:
            await worker.until_drained()
        await queue.close()
        again, handle = self.opened()
        left = await again.pending(handle)
        await again.close()
        if left:
            raise RuntimeError(f"{len(left)} tasks are left after a drain")

    def opened(self) -> tuple[apportion.Queue, TaskFunction[[int], Coroutine[object, object, None]]]:
        """Return a new queue object, and its task function."""
        queue = apportion.Queue(self._url, "bench", partitions=None if self._keys is None else PARTITIONS)

        @queue.task()
        async def handle(number: int) -> None:
            self.handled.append(number)

        return queue, handle
