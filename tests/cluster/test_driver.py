"""The driver: what a member sees, and what it is told from then on, are of one life of the store."""

import asyncio

import pytest

from apportion.cluster.driver import Driver
from apportion.cluster.options import Options
from apportion.cluster.records import GroupRecord, Keys, MemberRecord, encoded
from apportion.cluster.session import Sessions
from apportion.stores import Absent, Committed, Put
from apportion.stores.clock import SystemClock
from tests.cluster.tables_sample import handle, memory

KEYS = Keys(group="g")
OPTIONS = Options(group="g", record=GroupRecord(partitions=2), member_id="a", member=MemberRecord(nonce=""))


class RestoredAfter:
    """A handle whose store is set back to a copy once it has scanned a prefix, and whose watches begin late."""

    def __init__(self, shared, prefix, copy):
        self._inner, self._shared, self._prefix, self._copy = handle(shared), shared, prefix, copy

    async def scan(self, prefix):
        scan = await self._inner.scan(prefix)
        if prefix == self._prefix and self._copy is not None:
            self._shared.ledger, self._copy = self._copy, None
        return scan

    async def watch(self, prefix, *, after):
        await asyncio.sleep(0.05)
        async for change in self._inner.watch(prefix, after=after):
            yield change

    def __getattr__(self, name):
        return getattr(self._inner, name)


async def written(store, key, value):
    assert isinstance(await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=value)]), Committed)


@pytest.mark.parametrize("prefix", [KEYS.record, KEYS.live])
def test_a_view_is_of_the_life_of_the_store_that_is_watched(prefix):
    async def main():
        shared, copy = memory(), memory(incarnation=2)
        await written(handle(shared), KEYS.member("ghost"), encoded(MemberRecord(nonce="x")))
        for number in range(9):  # the life after is further on, so that nothing goes back but what is held
            await written(handle(copy), f"other/{number}", b"")
        driver = Driver(
            RestoredAfter(shared, prefix, copy.ledger), Sessions(handle(shared), SystemClock()), SystemClock(), OPTIONS
        )
        running = asyncio.ensure_future(driver.run())
        async with asyncio.timeout(5):
            while len(list(driver.share.serving)) < 2 or driver.view.incarnation < 2:
                await driver.turn()
        assert (2, {"a"}) == (driver.view.incarnation, set(driver.view.members))
        assert [1, 1] == [driver.view.owned(each).ownership.epoch for each in range(2)]  # nothing was owned before
        driver.leave()
        await running

    asyncio.run(main())
