"""Work that its first step ends has its outcome at once; all other work goes on in a task, as if begun there."""

import asyncio

import pytest

from apportion.runtime.prompt_start import is_prompt_start, started


async def played(work):
    """Start some work straight from the loop; return its outcome, and the tasks that were made for it."""
    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    found = []

    def _begin():
        before = asyncio.all_tasks()
        found.extend((started(work), asyncio.all_tasks() - before))
        begun.set()

    loop.call_soon(_begin)
    await begun.wait()
    return found


def test_work_that_waits_for_nothing_is_over_at_once_and_has_no_task():
    async def story():
        async def work():
            return 7 if is_prompt_start() else 0

        outcome, tasks = await played(work())
        return outcome.done(), outcome.result(), tasks

    assert (True, 7, set()) == asyncio.run(story())


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()])
def test_an_error_of_the_first_step_is_the_outcome(error):
    async def story():
        async def work():
            raise error

        outcome, tasks = await played(work())
        assert outcome.done()
        assert set() == tasks
        with pytest.raises(type(error)):
            await outcome

    asyncio.run(story())


def test_an_exit_in_the_first_step_is_an_exit():
    async def story():
        async def work():
            raise SystemExit(3)

        started(work())

    with pytest.raises(SystemExit):
        asyncio.run(story())


def test_work_that_waits_goes_on_in_a_task_of_its_own():
    async def story():
        heard = asyncio.Event()

        async def work():
            steps = [is_prompt_start()]
            for _ in range(2):
                await asyncio.sleep(0)
                steps.append(asyncio.current_task())
            await heard.wait()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.001):
                    await asyncio.Event().wait()
            return [*steps, asyncio.current_task()]

        outcome, tasks = await played(work())
        heard.set()
        assert {outcome} == tasks
        assert [True, outcome, outcome, outcome] == await outcome

    asyncio.run(story())


def test_a_wait_of_the_first_step_lasts_until_its_end():
    async def story():
        answer = asyncio.get_running_loop().create_future()

        async def work():
            return await answer

        outcome, _ = await played(work())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not outcome.done()
        answer.set_result(8)
        assert 8 == await outcome

    asyncio.run(story())


@pytest.mark.parametrize("turns", [0, 3])
def test_a_cancellation_reaches_the_work_wherever_it_waits(turns):
    async def story():
        ends = []

        async def work():
            try:
                await asyncio.Event().wait()
            finally:
                ends.append(asyncio.current_task().cancelling())

        outcome, _ = await played(work())
        for _ in range(turns):
            await asyncio.sleep(0)
        outcome.cancel()
        with pytest.raises(asyncio.CancelledError):
            await outcome
        assert [1] == ends

    asyncio.run(story())
