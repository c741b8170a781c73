"""The rig of SQLite as users open it: through the façade, on the I/O thread of the process."""

from functools import partial

from apportion.runtime.clock import SystemClock
from apportion.runtime.io_thread import io_thread
from apportion.stores import catalog
from apportion.stores.facade import AsyncStore
from tests.stores.rigs.sqlite import SqliteRig


class TasksOnThread:
    """A handle of tasks that lives on the I/O thread; its transactions are good from any thread."""

    def __init__(self, tasks, thread):
        self._tasks, self._thread = tasks, thread

    def __getattr__(self, name):
        call = getattr(self._tasks, name)
        return call if name in ("transactions", "schedules") else partial(self._hop, call)

    async def close(self):
        if self._thread.runs:
            await self._thread.finish(self._tasks.close())

    async def _hop(self, call, *arguments, **rest):
        return await self._thread.hop(call(*arguments, **rest))


class SqliteThreadRig(SqliteRig):
    """The same file, each handle of it on the I/O thread."""

    name = "sqlite, on the I/O thread"

    async def connect(self, namespace, *, address=None, clock=None):
        url = self.url(namespace, address=address)
        thread = io_thread()
        return AsyncStore(await thread.hop(catalog.connect(url, clock=clock or SystemClock())), thread)

    async def connect_tasks(self, namespace, *, address=None):
        thread = io_thread()
        return TasksOnThread(await thread.hop(catalog.connect_tasks(self.url(namespace, address=address))), thread)


RIG = SqliteThreadRig
