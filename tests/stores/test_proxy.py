"""The proxy passes, loses, swallows, cuts and repeats what goes through it."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from apportion.sim.conformance.proxy import Proxy


class Echo:
    """A server that answers a line with the same line, and remembers all lines."""

    def __init__(self):
        self.lines = []

    async def serve(self, reader, writer):
        while line := await reader.readline():
            self.lines.append(line)
            writer.write(line)
        writer.close()


@asynccontextmanager
async def proxied():
    """An echo, a proxy before it, and how to connect to that."""
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[:2])
    await proxy.open()
    try:
        yield echo, proxy
    finally:
        await proxy.close()
        server.close()


async def asked(streams, line):
    """Return the answer to a line, b"" when the connection is gone."""
    reader, writer = streams
    writer.write(line)
    try:
        return await asyncio.wait_for(reader.readline(), 5)
    except ConnectionError:
        return b""


def test_requests_and_replies_pass():
    async def run():
        async with proxied() as (echo, proxy):
            streams = await asyncio.open_connection(*proxy.address)
            assert [b"a\n", b"b\n"] == [await asked(streams, line) for line in (b"a\n", b"b\n")]
            assert [b"a\n", b"b\n"] == echo.lines

    asyncio.run(run())


def test_a_reply_is_lost_after_its_request_was_done():
    async def run():
        async with proxied() as (echo, proxy):
            streams = await asyncio.open_connection(*proxy.address)
            proxy.lose_reply(2)
            assert [b"a\n", b""] == [await asked(streams, line) for line in (b"a\n", b"b\n")]
            assert ([b"a\n", b"b\n"], 1) == (echo.lines, proxy.lost)
            again = await asyncio.open_connection(*proxy.address)
            assert b"c\n" == await asked(again, b"c\n")

    asyncio.run(run())


def test_a_request_is_lost_before_the_server_has_seen_it():
    async def run():
        async with proxied() as (echo, proxy):
            streams = await asyncio.open_connection(*proxy.address)
            proxy.lose_request(2)
            assert [b"a\n", b""] == [await asked(streams, line) for line in (b"a\n", b"b\n")]
            assert ([b"a\n"], 1) == (echo.lines, proxy.lost)
            again = await asyncio.open_connection(*proxy.address)
            assert b"c\n" == await asked(again, b"c\n")

    asyncio.run(run())


@pytest.mark.parametrize(("how", "least_seconds"), [("delay", 0.1), ("trickle", 0.3)])
def test_what_is_late_or_slow_comes_whole(how, least_seconds):
    async def run():
        async with proxied() as (_, proxy):
            streams, clock = await asyncio.open_connection(*proxy.address), asyncio.get_running_loop().time
            getattr(proxy, how)(0.05)
            began = clock()
            assert b"abc\n" == await asked(streams, b"abc\n")
            assert clock() - began >= least_seconds
            proxy.heal()
            began = clock()
            assert b"abc\n" == await asked(streams, b"abc\n")
            assert clock() - began < least_seconds

    asyncio.run(run())


def test_new_connections_are_refused_and_open_ones_go_on():
    async def run():
        async with proxied() as (_, proxy):
            streams = await asyncio.open_connection(*proxy.address)
            assert b"a\n" == await asked(streams, b"a\n")
            proxy.refuse()
            assert b"" == await asked(await asyncio.open_connection(*proxy.address), b"b\n")
            assert b"c\n" == await asked(streams, b"c\n")
            proxy.heal()
            assert b"d\n" == await asked(await asyncio.open_connection(*proxy.address), b"d\n")

    asyncio.run(run())


def test_silence_ends_with_what_was_sent_meanwhile():
    async def run():
        async with proxied() as (echo, proxy):
            streams = await asyncio.open_connection(*proxy.address)
            proxy.silence()
            waiting = asyncio.create_task(asked(streams, b"late\n"))
            done, _ = await asyncio.wait([waiting], timeout=0.05)
            assert (set(), []) == (done, echo.lines)
            proxy.heal()
            assert b"late\n" == await waiting

    asyncio.run(run())


def test_a_cut_resets_what_is_open_and_nothing_new():
    async def run():
        async with proxied() as (_, proxy):
            streams = await asyncio.open_connection(*proxy.address)
            assert b"a\n" == await asked(streams, b"a\n")
            proxy.cut()
            assert b"" == await asked(streams, b"b\n")
            assert b"c\n" == await asked(await asyncio.open_connection(*proxy.address), b"c\n")

    asyncio.run(run())


@pytest.mark.parametrize("count", [1, 3])
def test_requests_are_repeated_in_order(count):
    async def run():
        async with proxied() as (echo, proxy):
            streams = await asyncio.open_connection(*proxy.address)
            lines = [b"%d\n" % number for number in range(count)]
            assert lines == [await asked(streams, line) for line in lines]
            assert count == await proxy.repeat()
            assert lines * 2 == echo.lines

    asyncio.run(run())


def test_replies_trickle_on_the_connections_that_are_open_alone():
    async def run():
        async with proxied() as (echo, proxy):
            streams = await asyncio.open_connection(*proxy.address)
            assert b"a\n" == await asked(streams, b"a\n")
            proxy.trickle_open(3600.0)
            streams[1].write(b"bcd\n")
            assert b"b" == await asyncio.wait_for(streams[0].readexactly(1), 5)
            assert b"e\n" == await asked(await asyncio.open_connection(*proxy.address), b"e\n")
            assert [b"a\n", b"bcd\n", b"e\n"] == echo.lines

    asyncio.run(run())
