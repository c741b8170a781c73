"""Schedules of a queue: declared above a task or made from data, fired once among workers, triggered by hand."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

import apportion
from apportion.errors import AlreadyTriggered, InvalidInput
from apportion.runtime.io_thread import io_thread
from apportion.stores import connect
from apportion.stores.catalog import connect_tasks
from apportion.stores.schedules.rows import schedule_of
from apportion.stores.sqlite import schedules
from apportion.stores.task_values import Settlement, Worker
from apportion.work.cron.acts import existing, resumed

SOON = timedelta(seconds=1)


@pytest.fixture
def queue(tmp_path):
    return apportion.Queue(f"sqlite:///{tmp_path / 'work.db'}", "q", lease_ttl=timedelta(seconds=2))


async def worked(queue, seconds=2.6, workers=1):
    """Run workers for some time."""
    async with asyncio.timeout(30):
        async with queue.worker():
            if workers > 1:
                await worked(queue, seconds, workers - 1)
            else:
                await asyncio.sleep(seconds)
        await queue.close()


@pytest.mark.slow
def test_each_slot_runs_once_among_many_workers(queue):
    slots = []

    @queue.every(SOON)
    @queue.task()
    async def tick():
        slots.append(apportion.current_task().slot)

    asyncio.run(worked(queue, workers=3))
    assert len(slots) >= 2
    assert len(set(slots)) == len(slots)
    assert all(slot.microsecond == 0 and slot.tzinfo is UTC for slot in slots)


def test_a_schedule_from_data_is_kept_changed_and_forgotten(queue):
    @queue.task()
    async def report(tenant: str = "") -> None: ...

    async def _run():
        first = await queue.schedule("tenant-7/report", report.call("7"), cron="0 9 * * *")
        second = await queue.schedule("tenant-7/report", report.call("7"), every=timedelta(hours=1))
        gone = [await queue.unschedule("tenant-7/report") for _ in range(2)]
        await queue.close()
        return first, second, gone

    assert (True, False, [True, False]) == asyncio.run(_run())


def test_a_call_about_one_schedule_reads_no_other(queue, monkeypatch):
    @queue.task()
    async def report() -> None: ...

    async def _run():
        for tenant in "abc":
            await queue.schedule(tenant, report.call(), cron="0 9 * * *")
        monkeypatch.setattr(schedules, "schedule_of", lambda row: read.append(row[1]) or schedule_of(row))
        await queue.schedule("a", report.call(), cron="0 10 * * *")
        await queue.trigger("b", datetime(2050, 1, 1, tzinfo=UTC))
        await queue.close()

    read = []
    asyncio.run(_run())
    assert {"a", "b"} == set(read)


@pytest.mark.parametrize("name", [None, 5, "a\ud800", "a\0"])
def test_a_name_that_no_store_can_keep_names_no_schedule(queue, name):
    @queue.task()
    async def report() -> None: ...

    async def _run():
        await queue.schedule("a", report.call(), cron="0 9 * * *")
        with pytest.raises(InvalidInput, match="schedule"):
            await queue.trigger(name, datetime(2050, 1, 1, tzinfo=UTC))
        await queue.close()

    asyncio.run(_run())


def test_a_slot_is_triggered_once_and_no_older_one_after_it(queue):
    slots = []

    @queue.cron("0 9 * * *", zone="Europe/Berlin")
    @queue.task()
    async def report() -> None:
        slots.append(apportion.current_task().slot)

    slot = datetime(2199, 1, 1, 8, tzinfo=UTC)

    async def _run():
        await queue.schedule("report", report.call(), cron="0 9 * * *", zone="Europe/Berlin")
        handle = await queue.trigger("report", slot)
        for late in (slot, slot - timedelta(days=1)):
            with pytest.raises(AlreadyTriggered, match="report"):
                await queue.trigger("report", late)
        drained = await queue.drain()
        state = await handle.state()
        await queue.close()
        return drained.done, state

    assert (1, "missing") == asyncio.run(_run())
    assert [slot] == slots


def test_the_task_of_a_slot_is_completed_once_though_its_first_run_outlives_its_lease(queue):
    slot = datetime(2199, 1, 1, tzinfo=UTC)

    @queue.task()
    async def report() -> None: ...

    async def _claimed(leases, tasks):
        session = (await leases.grant(ttl_seconds=60)).id
        worker = Worker(session=session, queues=(queue._full_name,))
        (claim,) = (await tasks.turn(worker, want=1)).claims
        return worker, claim

    async def _refused(tasks, worker, claim):
        return bool((await tasks.turn(worker, [Settlement(receipt=claim.receipt, fate="done")])).refused)

    async def _run():
        await queue.schedule("report", report.call(), cron="@daily")
        await queue.trigger("report", slot)
        leases, tasks = await connect(queue.url), await connect_tasks(queue.url)
        slow, first = await _claimed(leases, tasks)
        await leases.revoke(slow.session)
        quick, second = await _claimed(leases, tasks)
        refused = [await _refused(tasks, slow, first), await _refused(tasks, quick, second)]
        with pytest.raises(AlreadyTriggered):
            await queue.trigger("report", slot)
        left = await queue.drain()
        for each in (leases, tasks, queue):
            await each.close()
        return (first.task, first.slot, 2) == (second.task, second.slot, second.attempt), refused, left.done

    assert (True, [True, False], 0) == asyncio.run(_run())


def test_a_drain_fires_no_schedule(queue):
    @queue.every(SOON)
    @queue.task()
    async def tick(): ...

    async def _run():
        drained = await queue.drain()
        with pytest.raises(InvalidInput, match="schedule"):
            await queue.trigger("tick", datetime.now(UTC))
        await queue.close()
        return drained.done

    assert 0 == asyncio.run(_run())


def test_the_slots_of_a_pause_are_not_fired_at_its_end(queue, tmp_path):
    @queue.task()
    async def tick(): ...

    async def _acts():
        store = await queue._opened.store()
        name = queue._full_name
        await store.schedules.pause(name, ["tick"])
        before = await existing(store, name, "tick")
        await resumed(store, name, "tick", by="test")
        after = await existing(store, name, "tick")
        return before.is_paused, after.is_paused, after.last_slot > before.last_slot, after.next_slot

    async def _run():
        await queue.schedule("tick", tick.call(), cron="* * * * *")
        with closing(sqlite3.connect(tmp_path / "work.db")) as file, file:  # ten slots come in the pause
            file.execute("UPDATE schedule SET last_slot = last_slot - 600000, next_slot = next_slot - 600000")
        answer = await io_thread().hop(_acts())
        await queue.close()
        return answer

    was, is_paused, moved, after = asyncio.run(_run())
    assert (True, False, True) == (was, is_paused, moved)
    assert after > datetime.now(UTC).timestamp() * 1_000


def test_a_schedule_of_a_task_with_required_arguments_is_refused(queue):
    with pytest.raises(InvalidInput, match="to"):

        @queue.cron("@daily")
        @queue.task()
        async def send(to: str) -> None: ...


def test_a_schedule_below_the_task_is_refused(queue):
    with pytest.raises(InvalidInput, match=r"@queue\.task"):

        @queue.task()
        @queue.cron("@daily")
        async def send() -> None: ...


def test_two_schedules_of_one_name_are_refused(queue):
    with pytest.raises(InvalidInput, match="tick"):

        @queue.every(SOON)
        @queue.cron("@daily")
        @queue.task()
        async def tick() -> None: ...


@pytest.mark.parametrize("given", [{}, {"cron": "@daily", "every": SOON}])
def test_a_schedule_has_one_rule(queue, given):
    @queue.task()
    async def tick() -> None: ...

    with pytest.raises(InvalidInput, match="cron"):
        asyncio.run(queue.schedule("tick", tick.call(), **given))


@pytest.mark.parametrize("given", [{"zone": "Europe/Berln"}, {"zone": "\ud800"}, {"gap": "twice"}, {"fold": "never"}])
def test_a_period_takes_no_policy_that_a_rule_would_refuse(queue, given):
    @queue.task()
    async def tick() -> None: ...

    with pytest.raises(InvalidInput, match=next(iter(given))):
        asyncio.run(queue.schedule("tick", tick.call(), every=SOON, **given))


@pytest.mark.parametrize("name", ["\ud800", "a\0b", "", None])
def test_a_name_that_no_schedule_can_have_is_refused_where_one_is_forgotten(queue, name):
    with pytest.raises(InvalidInput, match="name of the schedule"):
        asyncio.run(queue.unschedule(name))


@pytest.mark.parametrize("slot", ["2026-01-01", "9999-12-31T23:59-23:00", "9999-12-31T23:59+00:00"])
def test_a_slot_without_a_zone_or_past_the_calendar_is_refused(queue, slot):
    with pytest.raises(InvalidInput, match="slot"):
        asyncio.run(queue.trigger("tick", datetime.fromisoformat(slot)))


def test_the_sync_queue_schedules_and_triggers(tmp_path):
    queue = apportion.sync.Queue(f"sqlite:///{tmp_path / 'work.db'}", "q")

    @queue.task()
    def tick() -> None: ...

    assert queue.schedule("tick", tick.call(), every=timedelta(hours=1))
    handle = queue.trigger("tick", datetime(2199, 1, 1, tzinfo=UTC))
    assert "ready" == handle.state()
    queue.close()
