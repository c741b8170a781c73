"""What seeds have found in shipped files, each told once more in a few lines."""

import asyncio

import pytest

from apportion.errors import StoreWentBack
from apportion.sim import World
from apportion.sim.world.backings import MemoryBacking
from apportion.stores import Absent, Put
from tests.sim.scenarios.sqlite_backing import SqliteBacking


@pytest.mark.parametrize("backing", [MemoryBacking, SqliteBacking])
def test_a_watch_of_an_earlier_life_ends_though_its_handle_has_accepted_the_next(backing):
    """Seed 2607: it was behind when the store was restored, its handle scanned, and it went on in the next life."""

    async def put(store, key):
        await store.commit(when=[Absent(key=key)], puts=[Put(key=key, value=b"")])

    with World(1, store=backing) as world:
        store, other = world.store("a"), world.store("b")

        async def main():
            await store.scan("")
            await put(other, "k1")
            changes = store.watch("", after=0)
            assert 1 == (await anext(changes)).revision
            copy = world.backing.save()
            world.restore(copy, "is restored")
            await store.scan("")  # this handle accepts what it finds
            await other.scan("")
            await put(other, "k2")
            with pytest.raises(StoreWentBack):
                async with asyncio.timeout(5.0):
                    await anext(changes)

        world.run(main())


def test_a_late_request_of_an_earlier_life_does_not_happen_in_the_next():
    """Seed 205: a late revoke ended another session's lease, which a restored store had granted anew by that id."""
    with World(1) as world:
        store = world.store("a")

        async def main():
            empty = world.backing.save()
            old = await store.grant(ttl_seconds=5.0)
            world.network.clog("a", "store", 0.5)
            revoking = asyncio.ensure_future(store.revoke(old.id))
            await asyncio.sleep(0.1)
            world.restore(empty, "is restored")
            world.network.heal()
            await store.scan("")
            new = await store.grant(ttl_seconds=5.0)
            await asyncio.gather(revoking, return_exceptions=True)
            assert {new.id} == await store.renew([new.id])

        world.run(main())
