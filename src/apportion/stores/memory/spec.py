"""The memory store, as the catalog finds it."""

import time

from apportion.errors import InvalidInput
from apportion.runtime.clock import Clock
from apportion.stores.memory.store import SHARED, Memory, MemoryAdministration, MemoryStore
from apportion.stores.memory.tasks import MemoryTasks
from apportion.stores.spec import StoreSpec
from apportion.stores.task_api import TaskStore
from apportion.stores.url import StoreUrl


async def _connect(url: StoreUrl, clock: Clock) -> MemoryStore:
    return MemoryStore(_memory(url, clock), url.namespace, str(url))


async def _tasks(url: StoreUrl, clock: Clock) -> TaskStore:
    return MemoryTasks(_memory(url, clock), str(url))


def _memory(url: StoreUrl, clock: Clock) -> Memory:
    _check(url)
    began_ms = round((time.time() - clock.elapsed()) * 1_000)
    return SHARED.setdefault(url.host, Memory(clock, began_ms=began_ms))


def _administration(url: StoreUrl) -> MemoryAdministration:
    _check(url)
    return MemoryAdministration()


def _check(url: StoreUrl) -> None:
    url.expect(options=(), parts=("host",))
    if len(url.hosts) > 1:
        raise InvalidInput("host of the store URL", str(url), "one name, or none", "Write for example memory://name")


SPEC = StoreSpec(
    name="memory",
    schemes=("memory",),
    example="memory://",
    promises=frozenset({"fencing", "gapless_watch", "linearizable"}),
    connect=_connect,
    tasks=_tasks,
    administration=_administration,
)
