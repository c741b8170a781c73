"""An operator reads and changes queues, and hears why a task is not done."""

import asyncio
from datetime import timedelta

import pytest

from apportion.errors import InvalidInput
from apportion.stores.task_control import Overview, QueueStats, TaskRow
from apportion.work import admin
from apportion.work.facade import Queue


@pytest.fixture
def queue(tmp_path):
    return Queue(f"sqlite:///{tmp_path}/work.db", "mail", lease_ttl=timedelta(seconds=2))


def played(play):
    """Run an async test body for at most half a minute."""
    return asyncio.run(asyncio.wait_for(play, 30))


def test_a_paused_queue_starts_nothing_until_it_is_resumed(queue):
    runs = []

    @queue.task()
    def run() -> None:
        runs.append(1)

    async def _play():
        handle = await queue.enqueue(run.call())
        await admin.pause(queue.url, "mail")
        assert (0, "paused") == ((await queue.drain()).done, (await admin.why(queue.url, handle.id)).cause)
        await admin.resume(queue.url, "mail")
        assert (1, "missing") == ((await queue.drain()).done, (await admin.why(queue.url, handle.id)).cause)

    played(_play())


def test_a_limit_holds_over_all_workers(queue):
    running, most = [], []

    @queue.task()
    async def run() -> None:
        running.append(1)
        most.append(len(running))
        await asyncio.sleep(0.02)
        running.pop()

    async def _play():
        await queue.enqueue_many([run.call() for _ in range(12)])
        await admin.limit(queue.url, "mail", running=3)
        async with queue.worker(concurrency=4), queue.worker(concurrency=4):
            while len(most) < 12 or running:
                await asyncio.sleep(0.01)
        assert max(most) <= 3

    played(_play())


def test_dead_tasks_are_listed_redriven_and_purged(queue):
    @queue.task(failures=1)
    def fail() -> None:
        raise ValueError("no")

    async def _play():
        handles = await queue.enqueue_many([fail.call(), fail.call()])
        assert 2 == (await queue.drain()).dead
        (first, second) = await admin.tasks(queue.url, "mail", states=("dead",))
        assert {first.id, second.id} == {each.id for each in handles}
        assert ("dead", "ValueError: no") == ((found := await admin.why(queue.url, first.id)).cause, found.task.reason)
        assert (1, 0) == (await admin.redrive(queue.url, first.id), await admin.redrive(queue.url, first.id))
        (stats,) = await admin.stats(queue.url)
        assert ("mail", 1, 1) == (stats.queue, stats.ready, stats.dead)
        assert (1, 1) == (await admin.purge(queue.url, "mail", "dead"), await admin.purge(queue.url, "mail", "ready"))

    played(_play())


def test_waiting_tasks_are_hastened_and_cancelled(queue):
    @queue.task()
    def run() -> None: ...

    async def _play():
        one, other = await queue.enqueue_many([run.call().options(delay=timedelta(hours=1)) for _ in range(2)])
        assert "due" == (await admin.why(queue.url, one.id)).cause
        assert (1, 1) == (await admin.hasten(queue.url, one.id), await admin.cancel(queue.url, other.id))
        assert ("no_worker", "cancelled") == tuple(
            [(await admin.why(queue.url, each.id)).cause for each in (one, other)]
        )

    played(_play())


@pytest.mark.parametrize(
    ("row", "stats", "cause"),
    [
        ({"state": "claimed"}, {}, "claimed"),
        ({"state": "delayed", "reason": "this worker has no task function 'f'"}, {}, "unknown_name"),
        ({"state": "ready"}, {"workers": 1}, "ready"),
        ({"state": "ready"}, {"workers": 1, "open_claims": 2, "claimed": 2}, "limited"),
        ({"state": "ready"}, {"workers": 1, "open_claims": 3, "claimed": 2}, "ready"),
        ({"state": "ready"}, {"workers": 1, "rate": 2}, "limited"),
        ({"state": "ready"}, {"workers": 1, "is_paused": True}, "paused"),
        ({"state": "ready"}, {}, "no_worker"),
    ],
)
def test_the_cause_follows_from_the_row_and_the_numbers(row, stats, cause):
    overview = Overview(queues=(QueueStats(queue="q", **stats),), workers=())
    assert cause == admin.cause_of(TaskRow(**{"id": "t", "queue": "q", "name": "f", **row}), overview)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda url: admin.pause(url, "no blanks"), "queue"),
        (lambda url: admin.limit(url, "q", running=0), "running"),
        (lambda url: admin.limit(url, "q", rate=1.5), "rate"),
        (lambda url: admin.limit(url, "q", rate=1, per=timedelta(0)), "per"),
    ],
)
def test_a_mistake_names_the_field(queue, call, told):
    with pytest.raises(InvalidInput, match=told):
        played(call(queue.url))
