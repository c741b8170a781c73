"""The rig of the memory store: all it can do without a server, a disk, or a second process."""

import copy

from apportion.runtime.clock import SystemClock
from apportion.sim.conformance import Impossible, Rig
from apportion.stores.ledger import Ledger
from apportion.stores.memory.store import Memory, MemoryStore
from apportion.stores.memory.tasks import MemoryTasks
from apportion.stores.task_ledger import TaskLedger
from tests.stores.rigs import wall


class MemoryRig(Rig):
    """One memory for all handles of all cases."""

    name = "memory"

    def __init__(self) -> None:
        self.memory = Memory(SystemClock()).take()
        self._kept: tuple[Ledger, TaskLedger] | None = None

    def url(self, namespace, *, address=None):
        return f"memory://?namespace={namespace}"

    async def connect(self, namespace, *, address=None, clock=None):
        return MemoryStore(self.memory, namespace)

    async def connect_tasks(self, namespace, *, address=None):
        return MemoryTasks(self.memory)

    def url_elsewhere(self, namespace):
        raise Impossible("durable", "it ends with its process")

    def address(self):
        raise Impossible("multi_host", "it has no wire")

    async def kill(self):
        raise Impossible("durable", "it ends with its process")

    async def start(self):
        raise Impossible("durable", "it ends with its process")

    async def compact(self):
        self.memory.ledger.compact(self.memory.ledger.revision)

    async def save(self):
        self._kept = copy.deepcopy((self.memory.ledger, self.memory.tasks, self.memory.schedules))

    async def restore(self):
        next_lease = self.memory.ledger.next_lease  # as on every engine, a copy does not take it back
        self.memory.ledger, self.memory.tasks, self.memory.schedules = copy.deepcopy(self._kept)
        self.memory.ledger.next_lease = next_lease
        self.memory.changed()

    async def restore_in_place(self):
        raise Impossible("durable", "it ends with its process")

    async def deny(self):
        raise Impossible("durable", "it has no users")

    async def allow(self):
        raise Impossible("durable", "it has no users")

    async def fill(self):
        raise Impossible("durable", "it has no disk")

    async def relieve(self):
        raise Impossible("durable", "it has no disk")

    async def step_clock(self, seconds):
        wall.step(seconds)

    async def close(self):
        self.memory.let_go()


RIG = MemoryRig
