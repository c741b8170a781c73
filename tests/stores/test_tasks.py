"""The tasks of a store over its handles: every kind of store that keeps tasks."""

import asyncio
import sqlite3
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from uuid import uuid4

import pytest

from apportion.errors import InvalidInput, LeaseLost, NotPromised, StoreClosed, StoreWentBack
from apportion.stores.catalog import connect, connect_tasks
from apportion.stores.task_control import Listing, Pause, SetLimit, StoreTime, Survey
from apportion.stores.task_once import OnceState, OnceStep
from apportion.stores.task_values import NewTask, Note, Receipt, Settlement, Worker

URLS = ["memory://tasks", "sqlite:///{}/work.db"]


def task(**rest):
    """Return a task of the queue `q`."""
    return NewTask(**{"id": uuid4().hex, "queue": "q", "name": "f", "arguments": b"[]", **rest})


@asynccontextmanager
async def opened(url, tmp_path):
    """Open the tasks of a store, and a coordination store beside them for leases."""
    async with AsyncExitStack() as stack:
        store = await connect(url.format(tmp_path))
        stack.push_async_callback(store.close)
        tasks = await connect_tasks(url.format(tmp_path))
        stack.push_async_callback(tasks.close)
        yield store, tasks


@pytest.fixture(params=URLS)
def url(request):
    return request.param


def test_a_task_is_claimed_once_and_done_under_its_receipt_alone(url, tmp_path):
    async def _run():
        async with opened(url, tmp_path) as (store, tasks):
            ids = [await tasks.enqueue([task(), task()])]
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            claims = (await tasks.turn(worker, want=10)).claims
            assert [each for ((each, _), *_) in ids] == [claims[0].receipt.task]
            assert () == (await tasks.turn(worker, want=10)).claims
            receipt = claims[0].receipt
            stale = Receipt(task=receipt.task, attempt=receipt.attempt + 1, session=receipt.session)
            settled = [Settlement(receipt=each, fate="done") for each in (stale, receipt)]
            assert (stale,) == (await tasks.turn(worker, settled)).refused
            assert (receipt,) == (await tasks.turn(worker, settled[1:])).refused
            assert [claims[1].receipt.task] == [row.id for row in await tasks.query(Listing())]

    asyncio.run(_run())


def test_a_turn_that_changes_nothing_wakes_no_worker(tmp_path, monkeypatch):
    woken = []

    async def _run():
        async with opened("sqlite:///{}/work.db", tmp_path) as (store, tasks):
            await tasks.enqueue([task()])
            await tasks.control(Pause(queue="q"))
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            await tasks.turn(worker, want=1)  # notes the worker
            monkeypatch.setattr(tasks._lookout, "wrote", woken.append)
            assert () == (await tasks.turn(worker, want=1)).claims
            assert [] == woken
            await tasks.control(Pause(queue="q", is_paused=False))
            woken.clear()
            assert 1 == len((await tasks.turn(worker, want=1)).claims)

    asyncio.run(_run())
    assert 1 == len(woken)


def test_a_claim_says_how_long_its_task_was_ready(url, tmp_path):
    async def _run():
        async with opened(url, tmp_path) as (store, tasks):
            await tasks.enqueue([task()])
            began = await tasks.query(StoreTime())
            while (waited := await tasks.query(StoreTime()) - began) < 20:
                await asyncio.sleep(0.001)
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            (claim,) = (await tasks.turn(worker, want=1)).claims
            assert waited <= claim.waited_ms < 5_000
            assert not claim.is_retaken

    asyncio.run(_run())


def test_the_tasks_of_an_ended_session_go_to_another_one_first(url, tmp_path):
    async def _run():
        async with opened(url, tmp_path) as (store, tasks):
            await tasks.enqueue([task(), task(), task(), task()])
            first, second = [Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",)) for _ in range(2)]
            old = (await tasks.turn(first, want=1)).claims
            await store.revoke(first.session)
            new = (await tasks.turn(second, want=2)).claims
            assert [old[0].receipt.task, 2, 1] == [new[0].receipt.task, new[0].receipt.attempt, new[0].deaths]
            assert [True, False] == [each.is_retaken for each in new]
            with pytest.raises(LeaseLost):
                await tasks.turn(first, want=1)

    asyncio.run(_run())


def test_of_eight_places_one_goes_to_the_lane_whose_head_waited_longest(url, tmp_path):
    async def _run():
        async with opened(url, tmp_path) as (store, tasks):
            await tasks.enqueue([task(lane=3), task(lane=3)])
            began = await tasks.query(StoreTime())
            while await tasks.query(StoreTime()) == began:
                await asyncio.sleep(0.001)
            await tasks.enqueue([task(lane=lane) for lane in (0, 1) for _ in range(9)])
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            lanes = [claim.lane for claim in (await tasks.turn(worker, want=16)).claims]
            assert [0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 1, 1, 1, 1, 1, 3] == lanes

    asyncio.run(_run())


def test_a_turn_cancels_a_limited_number_of_expired_tasks(url, tmp_path):
    async def _run():
        async with opened(url, tmp_path) as (store, tasks):
            (good,) = [task()]
            await tasks.enqueue([*[task(expires_at=1) for _ in range(150)], good])
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            assert () == (await tasks.turn(worker, want=2)).claims
            assert 100 == len(await tasks.query(Listing(states=("cancelled",), most=1_000)))
            assert [good.id] == [claim.receipt.task for claim in (await tasks.turn(worker, want=2)).claims]

    asyncio.run(_run())


def test_an_idle_worker_is_known(url, tmp_path):
    async def _run():
        async with opened(url, tmp_path) as (store, tasks):
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            assert () == (await tasks.turn(worker, want=16)).claims
            assert (worker,) == (await tasks.query(Survey())).workers

    asyncio.run(_run())


def test_a_note_and_a_pause_take_effect(url, tmp_path):
    async def _run():
        async with opened(url, tmp_path) as (store, tasks):
            await tasks.enqueue([task(), task()])
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            (claim,) = (await tasks.turn(worker, want=1)).claims
            assert () == (await tasks.beat(worker.session, [Note(receipt=claim.receipt, progress=0.5)])).refused
            assert 1 == await tasks.control(Pause(queue="q"))
            assert () == (await tasks.turn(worker, want=1)).claims
            (stats,) = (await tasks.query(Survey())).queues
            assert (True, 1) == (stats.is_paused, stats.claimed)

    asyncio.run(_run())


def test_an_effect_is_begun_by_one_open_claim_at_a_time_and_never_again_once_it_is_done(url, tmp_path):
    async def _run():
        async with opened(url, tmp_path) as (store, tasks):
            await tasks.enqueue([task(), task()])
            workers = [Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",)) for _ in range(2)]
            first, second = [(await tasks.turn(each, want=1)).claims[0].receipt for each in workers]
            steps = [OnceStep(scope="q", key="k", receipt=each) for each in (first, second)]
            assert ["begun", "begun", "busy"] == [(await tasks.once(each)).found for each in (steps[0], *steps)]
            await store.revoke(first.session)
            assert OnceState(found="unknown", receipt=first) == await tasks.once(steps[1])
            assert "refused" == (await tasks.once(steps[0])).found
            assert "refused" == (await tasks.once(replace(steps[1], value=b"8"))).found
            assert "begun" == (await tasks.once(replace(steps[1], instead_of=first))).found
            assert "refused" == (await tasks.once(replace(steps[0], value=b"7"))).found
            assert "done" == (await tasks.once(replace(steps[1], value=b"8"))).found
            assert OnceState(found="done", receipt=second, value=b"8") == await tasks.once(steps[1])

    asyncio.run(_run())


def test_a_wait_ends_when_another_handle_enqueues(url, tmp_path):
    async def _run():
        async with opened(url, tmp_path) as (_, tasks):
            other = await connect_tasks(url.format(tmp_path))
            waiting = asyncio.create_task(tasks.wait(30))
            await asyncio.sleep(0)
            await other.enqueue([task()])
            await asyncio.wait_for(waiting, 5)
            await other.close()

    asyncio.run(_run())


def test_a_closed_handle_and_a_forked_one_refuse(url, tmp_path):
    async def _run():
        tasks = await connect_tasks(url.format(tmp_path))
        await tasks.close()
        await tasks.close()
        with pytest.raises(StoreClosed):
            await tasks.enqueue([task()])

    asyncio.run(_run())


def test_a_restored_file_is_another_life(tmp_path):
    async def _run():
        async with opened(URLS[1], tmp_path) as (_, tasks):
            await tasks.enqueue([task()])
            with sqlite3.connect(tmp_path / "work.db") as connection:
                connection.execute("UPDATE meta SET incarnation = incarnation + 1")
            with pytest.raises(StoreWentBack):
                await tasks.enqueue([task()])
            assert 1 == len(await tasks.query(Listing()))
            await tasks.enqueue([task()])

    asyncio.run(_run())


def test_tables_of_a_later_release_are_refused(tmp_path):
    async def _run():
        async with opened(URLS[1], tmp_path):
            with sqlite3.connect(tmp_path / "work.db") as connection:
                connection.execute("UPDATE work_meta SET version = 99")
            with pytest.raises(InvalidInput, match="version of the tasks is 99"):
                await connect_tasks(URLS[1].format(tmp_path))

    asyncio.run(_run())


def test_a_store_without_tasks_names_those_that_keep_them():
    with pytest.raises(NotPromised, match=r"tasks.*\n.*memory, postgresql, sqlite"):
        asyncio.run(connect_tasks("etcd://localhost:2379"))


def forget_workers(url, tasks, tmp_path):
    """Delete the rows of all workers by hand."""
    if url.startswith("memory"):
        tasks._memory.tasks.workers.clear()
    else:
        with closing(sqlite3.connect(tmp_path / "work.db", timeout=10)) as connection, connection:
            connection.execute("DELETE FROM worker")


@pytest.mark.parametrize("is_limited", [False, True], ids=["", "of a queue with a limit"])
def test_a_claim_under_a_session_without_lease_and_worker_is_taken_over(url, tmp_path, is_limited):
    async def _run():
        async with opened(url, tmp_path) as (store, tasks):
            await tasks.enqueue([task() for _ in range(3)])
            first, second = [Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",)) for _ in range(2)]
            (claim,) = (await tasks.turn(first, want=1)).claims
            if is_limited:
                await tasks.control(SetLimit(queue="q", open_claims=3))
            await store.revoke(first.session)
            forget_workers(url, tasks, tmp_path)
            taken = (await tasks.turn(second, want=3)).claims
            assert (claim.receipt.task, 2, True) == (
                taken[0].receipt.task,
                taken[0].receipt.attempt,
                taken[0].is_retaken,
            )
            done = [Settlement(receipt=each.receipt, fate="done") for each in taken]
            assert () == (await tasks.turn(second, done, want=3)).refused

    asyncio.run(_run())


def test_a_listing_of_ids_has_all_of_them(url, tmp_path):
    async def _run():
        async with opened(url, tmp_path) as (_, tasks):
            made = [task() for _ in range(150)]
            await tasks.enqueue(made)
            ids = tuple(each.id for each in made)
            assert ids == tuple(row.id for row in await tasks.query(Listing(tasks=ids)))
            assert ids[:100] == tuple(row.id for row in await tasks.query(Listing()))

    asyncio.run(_run())


def test_a_task_of_a_call_alone_is_in_the_middle_lane_and_a_claim_of_it_equals_itself_alone(url, tmp_path):
    async def _run():
        async with opened(url, tmp_path) as (store, tasks):
            await tasks.enqueue([NewTask(id=uuid4().hex, queue="q", name="f", arguments=b"[]") for _ in range(2)])
            worker = Worker(session=(await store.grant(ttl_seconds=5)).id, queues=("q",))
            one, two = (await tasks.turn(worker, want=2)).claims
            assert (2, "json", "") == (one.lane, one.codec, one.trace)
            same = one._replace(waited_ms=one.waited_ms + 1)
            assert (True, False) == (one == same, one != same)
            assert (False, True) == (one == two, one != two)

    asyncio.run(_run())
