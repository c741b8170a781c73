"""The owners of a group are published while something else lies under its name: members go on, and it is told once."""

import asyncio
import logging
from datetime import timedelta

import pytest

import apportion
from apportion.errors import StoreDenied
from apportion.groups.controller.publish_owners import AGAIN_SECONDS, CHECK_SECONDS
from apportion.groups.driver import Driver
from apportion.groups.opening import Options
from apportion.groups.session import Sessions
from apportion.groups.view.records import GroupRecord, MemberRecord
from apportion.sim import World
from apportion.stores import Absent, Committed, Put, Unchanged
from apportion.tables.layout import TableKeys, decode_head, resolved
from tests.tables.damaged_tables import HEADS, head_with
from tests.tables.sample import ring

PATIENCE_SECONDS = 20
TABLE = TableKeys("g")
DENIED = "denied"
NEXT_FORMAT = b'{"format_version":2}'


async def write_head(store, value):
    """Put something into the place of the head of the table that has the group's name."""
    await store.commit(when=[Absent(key=TABLE.head)], puts=[Put(key=TABLE.head, value=value)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "problem", "advice"),
    [
        ("a table", "kind of g is 'assignment', expected table", "another name"),
        ("a head of the next format", "format_version of a table's head is 2", "Upgrade"),
    ],
)
def test_a_table_that_cannot_be_followed_up_ends_no_member(tmp_path, caplog, what, problem, advice):
    url = f"sqlite:///{tmp_path / 'store.db'}"

    def opened(member_id):
        return apportion.open_group(url, "g", partitions=8, member_id=member_id, lease_ttl=timedelta(seconds=5))

    def warnings():
        return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]

    async def main():
        if what == "a table":
            await apportion.publish(url, "g", ring("x", "y"))
        else:
            async with apportion.open_store(url) as store:
                await write_head(store, NEXT_FORMAT)
        async with asyncio.timeout(PATIENCE_SECONDS), opened("a") as first, opened("b") as second:
            await first.wait_until_settled()
            await second.wait_until_settled()
            while not warnings():
                await asyncio.sleep(0.01)
            assert (True, True, 4, 4) == (first.is_alive, second.is_alive, len(first.owned), len(second.owned))
            assert (1, 1) == (first.statistics.sessions, second.statistics.sessions)
            assert 1 == len(warnings())
            assert all(part in warnings()[0] for part in ("table g", problem, advice)), warnings()

    with caplog.at_level(logging.WARNING, "apportion"):
        asyncio.run(main())


class Counted:
    """A handle that counts the looks at the table which has the group's name, and refuses them while it is told to."""

    def __init__(self, inner, looks):
        self._inner, self._looks = inner, looks

    async def scan(self, prefix):
        if prefix == TABLE.prefix:
            self._looks.append(prefix)
            if DENIED in self._looks:
                raise StoreDenied("the store", "no right to read it", "Grant it.")
        return await self._inner.scan(prefix)

    def __getattr__(self, name):
        return getattr(self._inner, name)


@pytest.mark.parametrize(("denied", "advice"), [([], "Upgrade this client"), ([DENIED], "Grant it")])
def test_it_is_tried_again_at_a_bounded_pace_until_it_can_be_done(denied, advice, caplog):
    looks, drivers = [*denied], {}

    async def live(world, name):
        store, clock = Counted(world.store(name), looks), world.clock(name)
        options = Options(group="g", record=GroupRecord(partitions=4), member_id=name, member=MemberRecord(nonce=""))
        drivers[name] = Driver(store, Sessions(world.store(name), clock), clock, options)
        await drivers[name].run()

    async def story(world):
        store = world.store("another")
        if not denied:
            await write_head(store, NEXT_FORMAT)
        for name in ("m1", "m2"):
            world.spawn(name, live(world, name))
        await asyncio.sleep(60)
        assert 60 / AGAIN_SECONDS - 2 <= len(looks) <= 60 / AGAIN_SECONDS + 1
        assert [1, 1] == [each.statistics.sessions for each in drivers.values()]
        assert 1 == caplog.text.count(advice)
        looks.clear()
        for found in (await store.scan(TABLE.head)).items:
            await store.commit(when=[Unchanged(key=found.key, revision=found.revision)], deletes=[found.key])
        await asyncio.sleep(AGAIN_SECONDS + 1)
        (head,) = [each for each in (await store.scan(TABLE.head)).items if each.key == TABLE.head]
        assert 1 == decode_head(head.value).version

    with caplog.at_level(logging.WARNING, "apportion"), World(1) as world:
        world.run(story(world))


def _with_a_chunk_more(item):
    return head_with(item.value, HEADS["a chunk more"]) if item.key == TABLE.head else item.value


@pytest.mark.parametrize("damage", [lambda _: b"?", lambda _: None, _with_a_chunk_more])
def test_a_table_of_owners_that_somebody_damages_is_published_anew(damage):
    drivers = {}

    async def live(world, name):
        store, clock = world.store(name), world.clock(name)
        options = Options(group="g", record=GroupRecord(partitions=4), member_id=name, member=MemberRecord(nonce=""))
        drivers[name] = Driver(store, Sessions(world.store(name), clock), clock, options)
        await drivers[name].run()

    async def story(world):
        store = world.store("another")
        for name in ("m1", "m2"):
            world.spawn(name, live(world, name))
        await asyncio.sleep(5)
        items = (await store.scan(TABLE.prefix)).items
        number = decode_head({each.key: each.value for each in items}[TABLE.head]).version
        for found in items:  # the head, or a chunk of it
            value = damage(found)
            puts = [] if value is None else [Put(key=found.key, value=value)]
            deletes = [found.key] if value is None else []
            when = [Unchanged(key=found.key, revision=found.revision)]
            assert isinstance(await store.commit(when=when, puts=puts, deletes=deletes), Committed)
        await asyncio.sleep(2 * CHECK_SECONDS + 1)
        chunks = {each.key: each.value for each in (await store.scan(TABLE.prefix)).items}
        head = decode_head(chunks[TABLE.head])
        assert head.version > number
        assert 4 == len(resolved(head, TABLE, chunks))
        assert [1, 1] == [each.statistics.sessions for each in drivers.values()]

    with World(1) as world:
        world.run(story(world))
