"""A call whose caller goes away: the result is heard, or it is taken back, or the work is cancelled."""

import asyncio

import pytest

from apportion.runtime.thread_call import ThreadCall


async def returns():
    await asyncio.sleep(0)
    return 7


async def raises():
    raise ValueError


async def waits():
    await asyncio.Event().wait()


async def insists():
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return 7


async def played(work, steps, *, is_prompt):
    """Take steps of a call, each heard by the loop before the next; return the results that were taken back."""
    undone, failed, coroutine = [], [], work()

    async def undo(result):
        undone.append(result)

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failed.append(context))
    call = ThreadCall(loop, coroutine, undo, is_prompt=is_prompt)
    for step in steps.split():
        getattr(call, step)()
        for _ in range(8):
            await asyncio.sleep(0)
    assert [] == failed
    assert {asyncio.current_task()} == asyncio.all_tasks()
    assert coroutine.cr_frame is None, "the work has ended"
    return undone


@pytest.mark.parametrize("is_prompt", [False, True])
@pytest.mark.parametrize(
    ("work", "steps", "expected"),
    [
        (returns, "begin", []),
        (returns, "begin begin", []),
        (returns, "begin abandon", [7]),
        (returns, "abandon", []),
        (raises, "begin abandon", []),
        (waits, "begin abandon", []),
        (insists, "begin abandon", [7]),
    ],
)
def test_a_result_that_nobody_hears_is_taken_back_and_all_other_work_ends(work, steps, expected, is_prompt):
    assert expected == asyncio.run(played(work, steps, is_prompt=is_prompt))


@pytest.mark.parametrize("is_prompt", [False, True])
def test_a_caller_hears_the_result_the_error_or_the_cancellation(is_prompt):
    async def heard(work):
        return await ThreadCall(asyncio.get_running_loop(), work(), None, is_prompt=is_prompt).heard()

    async def cancelled():
        raise asyncio.CancelledError

    assert 7 == asyncio.run(heard(returns))
    with pytest.raises(ValueError, match=r"^$"):
        asyncio.run(heard(raises))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(heard(cancelled))


@pytest.mark.parametrize("is_prompt", [False, True])
def test_a_call_that_is_abandoned_as_it_returns_is_undone_once(is_prompt):
    """The request to abandon comes between the return of the work and the news of it."""
    undone = []

    async def undo(result):
        undone.append(result)

    async def play():
        async def work():
            call.abandon()
            return 7

        call = ThreadCall(asyncio.get_running_loop(), work(), undo, is_prompt=is_prompt)
        call.begin()
        for _ in range(8):
            await asyncio.sleep(0)

    asyncio.run(play())
    assert [7] == undone
