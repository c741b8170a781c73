"""An operator of keys: the reason why a task waits, the owner of a key, the busiest keys, another partition count."""

import asyncio
from itertools import count

import pytest

from apportion.errors import InvalidInput, KeyedTasksOpen, Unsafe
from apportion.runtime.io_thread import io_thread
from apportion.work import admin
from apportion.work.facade import Queue
from tests.work.lanes.test_keyed_tasks import PARTITIONS, TTL, member, played, until

_numbers = count()


@pytest.fixture
def queue(url):
    return Queue(url, "mail", lease_ttl=TTL, partitions=PARTITIONS)


@pytest.fixture
def url():
    return f"memory://operated-{next(_numbers)}"


async def cause(queue, handle):
    return (await admin.why(queue.url, handle.id)).cause


def test_why_names_the_task_that_a_key_waits_for(queue):
    begun, ends = asyncio.Event(), asyncio.Event()

    @queue.task(failures=1)
    async def work(fails: bool) -> None:
        begun.set()
        await ends.wait()
        if fails:
            raise ValueError("no")

    async def _play():
        first = await queue.enqueue(work.call(True), key="k", on_dead="block")
        second = await queue.enqueue(work.call(False), key="k")
        other = await queue.enqueue(work.call(False), key="other")
        assert ("no_worker", "key_busy") == (await cause(queue, first), await cause(queue, second))
        async with queue.worker(concurrency=1, member=member("a")):
            await begun.wait()
            found = await admin.why(queue.url, second.id)
            assert ("key_busy", True) == (found.cause, first.id in found.next_step)
            assert "claimed" == await cause(queue, first)
            ends.set()
            await until(lambda: queue.statistics.dead == 1 and queue.statistics.done == 1)
            found = await admin.why(queue.url, second.id)
            assert ("key_blocked", True, "dead") == (
                found.cause,
                first.id in found.next_step,
                await cause(queue, first),
            )
            assert "missing" == await cause(queue, other)
            assert 1 == await admin.redrive(queue.url, first.id)
            ends.clear()
            await until(lambda: queue.statistics.start_latency.cumulative()[-1][1] == 3)
            assert "claimed" == await cause(queue, first)
            ends.set()
            assert 1 == await admin.cancel(queue.url, first.id)

    played(_play())


def test_why_tells_that_no_worker_owns_the_lane_of_a_key(queue):
    @queue.task()
    async def work() -> None: ...

    async def _play():
        async with queue.worker(member=member("away", weight=0.0)):
            handle = await queue.enqueue(work.call(), key="k")
            found = await admin.why(queue.url, handle.id)
        assert ("no_owner", True) == (found.cause, "apportion group show URL work.mail" in found.next_step)

    played(_play())


def test_the_owner_of_a_key_is_the_member_of_its_lane(queue):
    @queue.task()
    async def work() -> None: ...

    async def _play():
        await queue.enqueue(work.call())
        async with queue.worker(member=member("a")) as worker:
            await io_thread().hop(worker._claimant._lanes.until_settled())
            found = await admin.owner(queue.url, "mail", "tenant-42")
        assert ("tenant-42", 7, "a") == (found.key, found.partition, found.owner)
        assert (await admin.owner(queue.url, "mail", "tenant-42")).owner is None

    played(_play())


def test_the_busiest_keys_come_first(queue):
    @queue.task()
    async def work() -> None: ...

    async def _play():
        calls = [work.call().options(key=f"k{key}") for key in range(4) for _ in range(key + 1)]
        await queue.enqueue_many(calls)
        found = await admin.busiest(queue.url, "mail", most=2)
        assert [("k3", 4), ("k2", 3)] == [(each.key, each.waiting) for each in found]

    played(_play())


def test_a_task_with_a_key_is_enqueued_from_outside_into_the_lane_of_its_key(queue):
    @queue.task()
    async def work() -> None: ...

    async def _play():
        with pytest.raises(InvalidInput, match="partitions"):
            await admin.enqueue(queue.url, "mail", admin.written_call("work", "{}").options(key="tenant-42"))
        await queue.enqueue(work.call(), key="x")
        handle = await admin.enqueue(queue.url, "mail", admin.written_call("work", "{}").options(key="tenant-42"))
        (row,) = await admin.show(queue.url, handle.id)
        assert ("tenant-42", 16 + 7) == (row.key, row.lane)

    played(_play())


def test_the_number_of_partitions_changes_while_no_worker_and_no_keyed_task_is_there(queue):
    @queue.task()
    async def work() -> None: ...

    async def _play():
        async with queue.worker(member=member("a")):
            with pytest.raises(Unsafe, match="in use by a"):
                await admin.resize(queue.url, "mail", 16)
        handle = await queue.enqueue(work.call(), key="k")
        with pytest.raises(KeyedTasksOpen):
            await admin.resize(queue.url, "mail", 16)
        async with queue.worker(member=member("a")):  # the group has its former number again
            await until(lambda: queue.statistics.done == 1)
        assert "missing" == await handle.state()
        assert PARTITIONS == await admin.resize(queue.url, "mail", 16)
        with pytest.raises(InvalidInput, match="partitions"):
            async with queue.worker(member=member("a")):
                pass
        larger = Queue(queue.url, "mail", lease_ttl=TTL, partitions=16)
        async with larger.worker(member=member("a")) as worker:
            await io_thread().hop(worker._claimant._lanes.until_settled())
            assert 16 == len(worker._claimant._lanes.owned())

    played(_play())


def test_a_resize_that_does_not_name_the_store_of_the_group_is_refused_while_a_worker_runs(tmp_path):
    url, group_url = (f"sqlite:///{tmp_path / name}" for name in ("work.db", "group.db"))
    queue = Queue(url, "mail", lease_ttl=TTL, partitions=PARTITIONS, group_url=group_url)

    @queue.task()
    async def work() -> None: ...

    async def _play():
        async with queue.worker(member=member("a")):
            await queue.enqueue(work.call(), key="k")
            await until(lambda: queue.statistics.done == 1)
            with pytest.raises(Unsafe, match="in use by 1 worker"):
                await admin.resize(url, "mail", 16)
        assert PARTITIONS == await admin.resize(url, "mail", 16, group_url=group_url)

    played(_play())


def test_a_producer_that_ran_on_through_a_resize_is_refused_until_it_opens_the_queue_with_the_new_number(queue):
    @queue.task()
    async def work() -> None: ...

    async def _play():
        handle = await queue.enqueue(work.call(), key="k")
        await handle.cancel()
        await admin.resize(queue.url, "mail", 16)
        for _ in range(2):
            with pytest.raises(
                InvalidInput, match=r"(?s)mail is 8, expected 16, the number of this queue\..* tasks resize"
            ):
                await queue.enqueue(work.call(), key="k")
        assert () == (await admin.tasks(queue.url, "mail")).tasks
        await queue.enqueue(work.call())  # a task without a key has no partition
        larger = Queue(queue.url, "mail", lease_ttl=TTL, partitions=16)
        assert (await larger.enqueue(work.call(), key="k")).created

    played(_play())
