"""Keys of tasks: their partitions, and the options that no keyed task or queue can have."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

import apportion
from apportion import balance
from apportion.errors import ApportionError, InvalidInput, NotPromised
from apportion.placement import Slots
from apportion.stores.lanes.values import KEYED_LANES
from apportion.work.facade import Queue
from apportion.work.lanes.keys import checked_keys

URL = "memory://keys"
WEEK = timedelta(days=7)


@pytest.fixture
def send():
    queue = Queue(URL, "mail", partitions=64)

    @queue.task()
    async def send(to: str) -> None: ...

    return send


def test_the_partition_of_a_key_is_its_slot_and_stays_for_ever():
    keys = checked_keys(URL, "apportion/mail", 64, None)
    slots = Slots(balance.slots(apportion.Topology(["a"]), count=64))
    names = ["tenant-42", "ä", "日本", "x" * 1_024]
    assert [slots.slot(each) for each in names] == [keys.partition(each) for each in names]
    assert [59, 21, 11, 63] == [keys.partition(each) for each in names]
    assert KEYED_LANES + 59 == keys.lane("tenant-42")


def test_ten_thousand_keys_fill_each_partition():
    keys = checked_keys(URL, "apportion/mail", 64, None)
    counts = Counter(keys.partition(f"tenant-{number}") for number in range(10_000))
    assert (64, True) == (len(counts), max(counts.values()) < 1.4 * 10_000 / 64)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"key": ""}, "key"),
        ({"key": "x" * 1_025}, "key"),
        ({"key": "ä" * 513}, "key"),
        ({"key": 7}, "key"),
        ({"key": "a\0b"}, "key"),
        ({"key": "a\ud800"}, "key"),
        ({"key": "k", "priority": 0}, "priority"),
        ({"key": "k", "delay": timedelta(seconds=1)}, "delay"),
        ({"key": "k", "at": datetime(2030, 1, 1, tzinfo=UTC)}, "at"),
        ({"key": "k", "on_dead": "stop"}, "on_dead"),
        ({"on_dead": "block"}, "on_dead"),
    ],
)
def test_an_option_that_no_keyed_task_can_have_is_refused(send, options, field):
    with pytest.raises(InvalidInput, match=field):
        send.call("ann").options(**options)


def test_a_keyed_call_of_a_function_with_a_priority_is_refused():
    queue = Queue(URL, "mail", partitions=64)

    @queue.task(priority=0)
    async def first() -> None: ...

    with pytest.raises(InvalidInput, match="priority"):
        first.call().options(key="k")


def test_a_key_on_a_queue_without_partitions_is_refused_before_any_effect(send):
    queue = Queue(URL, "without")

    async def _play():
        with pytest.raises(InvalidInput, match="partitions=64"):
            await queue.enqueue_many([send.call("ann"), send.call("bob").options(key="k")])
        return await queue.pending(send)

    assert [] == asyncio.run(_play())


def test_a_scheduled_call_with_a_key_is_refused(send):
    queue = Queue(URL, "mail", partitions=64)
    with pytest.raises(InvalidInput, match="key"):
        asyncio.run(queue.schedule("s", send.call("ann").options(key="k"), every=timedelta(hours=1)))


@pytest.mark.parametrize("partitions", [0, -1, True, 2.0, "64", 262_145])
def test_a_number_of_partitions_that_no_queue_has_is_refused(partitions):
    with pytest.raises(InvalidInput, match="partitions"):
        Queue(URL, "mail", partitions=partitions)


@pytest.mark.parametrize(
    ("group_url", "error"),
    [("redis://127.0.0.1/0", NotPromised), ("nowhere://x", ApportionError), ("memory://x?y=1", ApportionError)],
)
def test_a_store_that_no_group_can_use_is_refused(group_url, error):
    with pytest.raises(error):
        Queue(URL, "mail", partitions=64, group_url=group_url)


def test_a_store_for_the_group_needs_partitions():
    with pytest.raises(InvalidInput, match="partitions"):
        Queue(URL, "mail", group_url="memory://other")


def test_a_member_needs_a_queue_with_partitions():
    queue = Queue(URL, "without")
    with pytest.raises(InvalidInput, match="member"):
        queue.worker(member=apportion.LaneMember())
    with pytest.raises(InvalidInput, match="member"):
        queue.claims(member=apportion.LaneMember())


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"weight": -1.0}, "weight"),
        ({"zone": "eu"}, "zone"),
        ({"member_id": "a/b"}, "member_id"),
        ({"static": True}, "member_id"),
        ({"drain_timeout": timedelta(0)}, "drain_timeout"),
        ({"settle": -WEEK}, "settle"),
        ({"throttle": 0}, "throttle"),
    ],
)
def test_an_option_that_no_member_can_have_is_refused_where_the_worker_is_made(options, field, monkeypatch):
    monkeypatch.delenv("APPORTION_MEMBER_ID", raising=False)
    queue = Queue(URL, "mail", partitions=64)
    with pytest.raises(ApportionError, match=field):
        queue.worker(member=apportion.LaneMember(**options))
    with pytest.raises(InvalidInput, match="member"):
        queue.worker(member="a")
