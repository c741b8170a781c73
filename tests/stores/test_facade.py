"""Stores as users open them: one thread does the work, whatever the callers' loops, threads and forks are about."""

import asyncio
import os
import subprocess
import sys
import threading
import time

import pytest

import apportion
from apportion.errors import InvalidInput, NotPromised, StoreClosed
from apportion.runtime.io_thread import io_thread
from apportion.stores import Absent, Committed, Put, Refused
from apportion.stores.facade import AsyncStore
from apportion.stores.memory import store as memory
from apportion.sync.stores import SyncStore

WHEN, PUTS = [Absent(key="a")], [Put(key="a", value=b"1")]


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "apportion-io"]


def test_the_sync_and_the_async_call_reach_the_same_store_on_one_thread():
    async def read():
        async with apportion.open_store("memory://both") as store:
            return await store.scan("")

    with apportion.sync.open_store("memory://both") as store:
        assert isinstance(store.commit(when=WHEN, puts=PUTS), Committed)
        assert isinstance(store.commit(when=WHEN, puts=PUTS), Refused)
        assert asyncio.run(read()) == store.scan("")
    assert 1 == len(threads())


def test_a_watch_yields_what_another_caller_commits_and_can_be_left():
    with apportion.sync.open_store("memory://watched") as store:
        changes = store.watch("", after=0)
        store.commit(when=WHEN, puts=PUTS)
        assert ["a"] == [event.key for event in next(changes).events]
        changes.close()


class Watched:
    """A store of which a watch yields one change and then waits, and writes down its end."""

    def __init__(self):
        self.ended, self._kept = threading.Event(), []

    def watch(self, prefix, *, after):
        self._kept.append(self._watch())  # nobody collects it
        return self._kept[-1]

    async def _watch(self):
        try:
            yield "a change"
            await asyncio.Event().wait()
        finally:
            self.ended.set()


def test_a_watch_that_is_left_has_ended_in_the_store_too():
    async def left():
        watch = AsyncStore(store, io_thread()).watch("", after=0)
        assert "a change" == await anext(watch)
        await watch.aclose()
        assert store.ended.is_set()

    store = Watched()
    asyncio.run(left())
    store = Watched()
    changes = SyncStore(store, io_thread()).watch("", after=0)
    assert "a change" == next(changes)
    assert not store.ended.is_set()
    changes.close()
    assert store.ended.wait(10)


def test_an_async_watch_ends_when_its_store_is_closed():
    async def watch():
        async with apportion.open_store("memory://ended") as store:
            asyncio.get_running_loop().call_later(0.01, lambda: closing.append(asyncio.ensure_future(store.close())))
            return [change async for change in store.watch("", after=0)]

    closing = []
    assert [] == asyncio.run(asyncio.wait_for(watch(), 5))


def test_what_goes_on_in_the_store_does_not_wait_for_a_blocked_loop():
    async def blocked():
        async with apportion.open_store("memory://blocked") as store:
            lease = await store.grant(ttl_seconds=0.2)
            thread = io_thread()
            ticks = []

            async def renew():
                for _ in range(10):
                    await asyncio.sleep(0.05)
                    ticks.append(await store._store.renew([lease.id]))

            renewing = asyncio.ensure_future(thread.hop(renew()))
            await asyncio.sleep(0)
            time.sleep(0.6)  # the user's code holds the user's loop
            await renewing
            return {lease.id}, set().union(*ticks), len(ticks)

    mine, renewed, ticks = asyncio.run(blocked())
    assert (mine, 10) == (renewed, ticks)


def test_a_cancelled_caller_cancels_the_call():
    async def cancelled():
        call = asyncio.ensure_future(io_thread().hop(forever()))
        await asyncio.wait_for(started.wait(), 5)
        call.cancel()
        await asyncio.wait_for(ended.wait(), 5)

    async def forever():
        loop.call_soon_threadsafe(started.set)
        try:
            await asyncio.Event().wait()
        finally:
            loop.call_soon_threadsafe(ended.set)

    async def main():
        nonlocal loop
        loop = asyncio.get_running_loop()
        await cancelled()

    loop, started, ended = None, asyncio.Event(), asyncio.Event()
    asyncio.run(main())


def test_an_error_is_the_stores_own_and_a_need_is_asked_for_at_the_start():
    with (
        pytest.raises(NotPromised, match="does not promise 'durable'"),
        apportion.sync.open_store("memory://", needs=("durable",)),
    ):
        pass
    with pytest.raises(InvalidInput, match="one that is compared"), apportion.sync.open_store("memory://") as store:
        store.commit(when=[], puts=PUTS)


def test_a_store_that_lacks_a_need_is_closed_again():
    with pytest.raises(NotPromised), apportion.sync.open_store("memory://lacking", needs=("durable",)):
        pass
    assert "lacking" not in memory.SHARED


def test_a_thread_that_would_wait_for_itself_is_refused():
    async def on_the_thread():
        io_thread().wait(asyncio.sleep(0))

    with pytest.raises(InvalidInput, match="I/O thread"):
        io_thread().wait(on_the_thread())


def test_a_forked_child_has_a_dead_handle_and_a_thread_of_its_own():
    with apportion.sync.open_store("memory://forked") as store:
        store.commit(when=WHEN, puts=PUTS)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            said = b""
            try:
                store.scan("")
            except StoreClosed as error:
                said = str(error).encode()
            store.close()
            with apportion.sync.open_store("memory://child") as own:
                said += f"; {type(own.commit(when=WHEN, puts=PUTS)).__name__}".encode()
            os.write(write, said)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as answer:
            said = answer.read()
        assert 0 == os.waitpid(child, 0)[1]
        assert "forked" in said
        assert said.endswith("; Committed")
        assert ["a"] == [item.key for item in store.scan("").items]


@pytest.mark.slow
@pytest.mark.parametrize("held", ["store.grant(ttl_seconds=60)", "next(changes)"], ids=["lease", "watch"])
def test_a_process_with_an_open_store_ends_at_once_and_in_silence(held):
    code = f"""if True:
        import apportion
        from apportion.stores import Absent, Put
        opened = apportion.sync.open_store("memory://")
        store = opened.__enter__()
        store.commit(when=[Absent(key="a")], puts=[Put(key="a", value=b"")])
        changes = store.watch("", after=0)
        {held}
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, text=True, timeout=20)
    assert (0, "", "") == (done.returncode, done.stdout, done.stderr)


def test_a_watch_that_is_cancelled_ends_on_the_thread_before_it_ends_here():
    async def watch(store):
        async for _ in store.watch("", after=0):
            pass

    async def main():
        async with apportion.open_store("memory://cancelled") as store:
            for _ in range(50):
                watching = asyncio.ensure_future(watch(store))
                await asyncio.sleep(0.001)
                watching.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await watching

    asyncio.run(main())
