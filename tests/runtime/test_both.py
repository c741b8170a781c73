"""Two calls at the same time: both results, the first error, and nothing that goes on afterwards."""

import asyncio
from contextlib import suppress

import pytest

from apportion.runtime.both import both


async def _result(value, *, after=0):
    for _ in range(after):
        await asyncio.sleep(0)
    return value


async def _error(after=0):
    await _result(None, after=after)
    raise OSError("it failed")


@pytest.fixture
def ends():
    return []


@pytest.fixture
def endless(ends):
    async def _endless():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # an end takes its time
            ends.append("ended")

    return _endless


@pytest.mark.parametrize("waits", [(0, 0), (3, 0), (0, 3)])
def test_both_results_come_in_their_order(waits):
    first, second = waits
    assert ("a", 2) == asyncio.run(both(_result("a", after=first), _result(2, after=second)))


def test_both_calls_run_at_the_same_time():
    async def story():
        gate = asyncio.Event()

        async def _open():
            gate.set()

        await both(gate.wait(), _open())

    asyncio.run(asyncio.wait_for(story(), 10))


@pytest.mark.parametrize("is_first", [True, False])
def test_an_error_of_one_ends_the_other_before_it_is_raised(is_first, endless, ends):
    calls = (_error(2), endless()) if is_first else (endless(), _error(2))
    with pytest.raises(OSError, match="it failed"):
        asyncio.run(both(*calls))
    assert ["ended"] == ends


def test_a_cancelled_caller_leaves_no_call_behind(endless, ends):
    async def story():
        caller = asyncio.ensure_future(both(endless(), endless()))
        await asyncio.sleep(0.01)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert ["ended"] * 2 == ends

    asyncio.run(story())


def test_two_errors_raise_the_first_and_warn_of_none(caplog):
    with pytest.raises(OSError, match="it failed"):
        asyncio.run(both(_error(), _error()))
    assert not caplog.records


@pytest.mark.parametrize("turns", [(1, 20), (20, 1), (20, 20)])
def test_one_cancellation_of_the_caller_lets_both_calls_clean_up(turns):
    ends = []

    async def _cleans_up(name, turns):
        try:
            await asyncio.Event().wait()
        finally:
            await _result(None, after=turns)
            ends.append(name)

    async def story():
        async with asyncio.timeout(0.01):
            await both(*(_cleans_up(each, after) for each, after in zip("ab", turns, strict=True)))

    with pytest.raises(TimeoutError):
        asyncio.run(story())
    assert ["a", "b"] == sorted(ends)


@pytest.mark.parametrize("cancels", [1, 2])
def test_a_caller_that_is_cancelled_while_it_waits_for_an_end_leaves_no_call_behind(cancels):
    async def _ends_late():
        for _ in range(cancels + 1):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)

    async def story():
        caller = asyncio.ensure_future(both(_error(), _ends_late()))
        for _ in range(cancels):
            await asyncio.sleep(0.01)
            caller.cancel()
        await asyncio.wait([caller])
        assert caller.cancelled()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert set() == asyncio.run(story())
