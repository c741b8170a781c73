"""The store in memory: what a watch sees of a lease that ends, in virtual time."""

import random

from apportion.sim.world.loop import VirtualLoop
from apportion.stores import Absent, Put
from apportion.stores.memory.store import Memory, MemoryStore


class LoopClock:
    """The time of a loop."""

    def __init__(self, loop):
        self.elapsed = loop.time


def test_a_watch_sees_the_end_of_a_lease_when_it_ends():
    loop = VirtualLoop(random.Random(1))

    async def story():
        shared = Memory(LoopClock(loop))
        shared.take()
        store = MemoryStore(shared, "test")
        lease = await store.grant(ttl_seconds=0.1)
        await store.commit(when=[Absent(key="a")], puts=[Put(key="a", value=b"1", lease=lease.id)])
        changes, seen = store.watch("", after=0), []
        while len(seen) < 2:
            seen += [(event.value, round(loop.time(), 1)) for event in (await anext(changes)).events]
        return seen

    try:
        assert [(b"1", 0.0), (None, 0.1)] == loop.run_until_complete(story())
    finally:
        loop.close()


def test_a_lease_ends_though_its_clock_tells_more_than_the_clock_of_its_loop():
    loop = VirtualLoop(random.Random(1))
    loop._now = 2.0**40  # which tells a quarter of a millisecond

    class Fine:
        def elapsed(self):
            return loop.time() - 2.0**40 + 0.00001

    async def story():
        store = MemoryStore(Memory(Fine()), "test")
        lease = await store.grant(ttl_seconds=0.1001)  # less than that after 410 of its steps
        await store.commit(when=[Absent(key="a")], puts=[Put(key="a", value=b"1", lease=lease.id)])
        assert None is (await anext(store.watch("", after=1))).events[0].value

    try:
        loop.run_until_complete(story())
    finally:
        loop.close()
