"""A queue on a real PostgreSQL server: the cases of `test_queue.py` that any store must pass."""

import asyncio
import json

import pytest

import apportion
from apportion.stores import connect
from tests.stores.test_postgres_tasks import rig, schema, url
from tests.work.test_claim_loop import (
    test_a_cancelled_task_ends_its_block_and_the_loop_goes_on,
    test_the_end_of_a_block_completes_and_an_exception_fails,
)
from tests.work.test_once import (
    test_a_second_caller_waits_for_the_first,
    test_an_effect_that_is_done_is_not_done_again_by_a_retry_or_another_task,
    test_an_effect_without_an_end_follows_on_unknown,
)
from tests.work.test_queue import (
    played,
    queue,
    test_a_block_that_ends_gives_back_the_tasks_that_it_has_not_started,
    test_a_drain_passes_all_expired_tasks,
    test_a_failed_run_comes_back_until_its_budget_is_spent,
    test_a_handler_gives_up_at_once_or_comes_back_without_a_failure,
    test_a_receipt_settles_from_anywhere_and_only_once,
    test_a_running_task_is_cancelled_and_a_waiting_one_never_runs,
    test_a_unique_task_is_kept_or_replaced,
    test_async_and_plain_functions_are_each_run_once,
    test_priorities_go_first_and_delayed_tasks_when_they_are_due,
    test_the_calls_of_a_handle_name_their_mistakes,
    test_what_this_worker_does_not_know_is_given_back,
)

__all__ = [
    "queue",
    "rig",
    "schema",
    "test_a_block_that_ends_gives_back_the_tasks_that_it_has_not_started",
    "test_a_cancelled_task_ends_its_block_and_the_loop_goes_on",
    "test_a_drain_passes_all_expired_tasks",
    "test_a_failed_run_comes_back_until_its_budget_is_spent",
    "test_a_handler_gives_up_at_once_or_comes_back_without_a_failure",
    "test_a_receipt_settles_from_anywhere_and_only_once",
    "test_a_running_task_is_cancelled_and_a_waiting_one_never_runs",
    "test_a_second_caller_waits_for_the_first",
    "test_a_unique_task_is_kept_or_replaced",
    "test_an_effect_that_is_done_is_not_done_again_by_a_retry_or_another_task",
    "test_an_effect_without_an_end_follows_on_unknown",
    "test_async_and_plain_functions_are_each_run_once",
    "test_priorities_go_first_and_delayed_tasks_when_they_are_due",
    "test_the_calls_of_a_handle_name_their_mistakes",
    "test_the_end_of_a_block_completes_and_an_exception_fails",
    "test_what_this_worker_does_not_know_is_given_back",
    "url",
]
pytestmark = pytest.mark.live


def test_effect_and_completion_are_one_commit(rig, schema, queue):
    rig.sql(f"CREATE TABLE IF NOT EXISTS public.paid_{schema} (amount integer)")
    rig.sql(f"GRANT ALL ON public.paid_{schema} TO PUBLIC")

    @queue.task(failures=1)
    def pay(amount: int) -> None:
        with apportion.current_task().transaction() as connection:
            connection.execute(f"INSERT INTO public.paid_{schema} VALUES (%s)", [amount])
            if amount < 0:
                raise ValueError(amount)

    async def _play():
        handles = await queue.enqueue_many([pay.call(5), pay.call(-1)])
        await queue.drain()
        assert ["missing", "dead"] == [await each.state() for each in handles]

    played(_play())
    assert [(5,)] == rig.sql(f"SELECT amount FROM public.paid_{schema}")


@pytest.mark.parametrize("is_made", [True, False])
def test_a_queue_and_its_worker_go_on_in_a_database_without_their_tables(rig, schema, url, is_made):
    async def _play():
        queue, ran = apportion.Queue(url, "dropped"), []

        @queue.task()
        async def run(number: int) -> None:
            ran.append(number)

        async def _lose():
            rig.sql(f"DROP SCHEMA {schema} CASCADE")
            if is_made:  # as in a copy that is older than the first task
                await (await connect(f"{url}&application_name=group")).close()

        async def _until(number):
            while number not in ran:
                await asyncio.sleep(0.01)

        await queue.enqueue(run.call(0))
        await _lose()
        await queue.enqueue(run.call(1))
        async with asyncio.timeout(25), queue.worker():
            await _until(1)
            await _lose()
            await queue.enqueue(run.call(2))
            await _until(2)
        await queue.close()
        return ran

    assert [1, 2] == asyncio.run(_play())


def test_a_lone_enqueue_comes_over_a_lost_connection_and_beside_a_busy_one(rig, url):
    async def _play():
        queue = apportion.Queue(f"{url}&application_name=lone", "lone")

        @queue.task()
        async def send(number: int) -> None: ...

        for number in range(3):
            await queue.enqueue(send.call(number))
            # With a time limit the call waits until the process is gone: a connection that breaks later leaves a doubt.
            rig.sql("SELECT pg_terminate_backend(pid, 9000) FROM pg_stat_activity WHERE application_name = 'lone'")
        for number in range(3, 6):
            await asyncio.gather(queue.pending(send), queue.enqueue(send.call(number)), queue.pending(send))
        left = [json.loads(each.arguments)["number"] for each in await queue.pending(send)]
        await queue.close()
        return left

    assert list(range(6)) == asyncio.run(_play())


def test_a_lone_enqueue_whose_caller_is_cancelled_costs_no_connection(rig, url):
    async def _play():
        queue = apportion.Queue(f"{url}&application_name=lone", "lone")

        @queue.task()
        async def send(number: int) -> None: ...

        seen = set()
        for number in range(20):
            adding = asyncio.create_task(queue.enqueue(send.call(number)))
            await asyncio.sleep(0.001 * (number % 5))
            adding.cancel()
            await asyncio.wait([adding])
            seen |= set(rig.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'lone' AND state = 'idle'"))
        await queue.close()
        return seen

    assert len(asyncio.run(_play())) <= 2
