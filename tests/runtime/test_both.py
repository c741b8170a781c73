"""Two calls at the same time: both results, the first error, and nothing that goes on afterwards."""

import asyncio

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
