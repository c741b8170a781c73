"""etcd over connections that stay open and say no more: one that was found silent puts the others in doubt."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from apportion.sim.conformance.proxy import Proxy
from tests.live.test_etcd import Tape, cluster, connected, put, until

pytestmark = pytest.mark.live
TTL_SECONDS = 8.0
SOON_SECONDS = 1.0


def test_a_watch_of_quiet_keys_is_opened_anew_once_a_request_met_silence():
    async def run():
        async with AsyncExitStack() as undo:
            rig = await undo.enter_async_context(cluster())
            proxy = Proxy(rig.address())
            await proxy.open()
            undo.push_async_callback(proxy.close)
            store = await undo.enter_async_context(connected(rig.url("silent", address=proxy.address)))
            other = await undo.enter_async_context(connected(rig.url("silent")))
            await store.grant(ttl_seconds=TTL_SECONDS)
            tape = Tape(store, "quiet/", after=(await store.scan("")).revision)
            undo.push_async_callback(tape.stop)
            await put(other, "quiet/0", b"0")
            await until(lambda: tape.values() == [b"0"], "the first change")
            for number in range(int(TTL_SECONDS * 8)):  # each opening that brings nothing puts off the next
                await put(other, "loud", b"%d" % number)
                await asyncio.sleep(0.1)
            proxy.half_open()
            await put(store, "mine", b"")  # meets silence, and is asked again
            await put(other, "quiet/1", b"1")
            await until(lambda: tape.values() == [b"0", b"1"], "the change", seconds=SOON_SECONDS)

    asyncio.run(run())
