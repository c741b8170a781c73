"""The rig of SQLite as users open it: through the façade, on the I/O thread of the process."""

from apportion.runtime.clock import SystemClock
from apportion.runtime.io_thread import io_thread
from apportion.stores import catalog
from apportion.stores.facade import AsyncStore
from tests.stores.rigs.sqlite import SqliteRig


class SqliteThreadRig(SqliteRig):
    """The same file, each handle of it on the I/O thread."""

    name = "sqlite, on the I/O thread"

    async def connect(self, namespace, *, address=None, clock=None):
        url = self.url(namespace, address=address)
        thread = io_thread()
        return AsyncStore(await thread.hop(catalog.connect(url, clock=clock or SystemClock())), thread)


RIG = SqliteThreadRig
