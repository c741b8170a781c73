"""The memory store, as the catalog finds it."""

from apportion.errors import InvalidInput
from apportion.runtime.clock import Clock
from apportion.stores.memory.store import SHARED, Memory, MemoryAdministration, MemoryStore
from apportion.stores.spec import StoreSpec
from apportion.stores.url import StoreUrl


async def _connect(url: StoreUrl, clock: Clock) -> MemoryStore:
    _check(url)
    return MemoryStore(SHARED.setdefault(url.host, Memory(clock)), url.namespace, str(url))


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
    administration=_administration,
)
