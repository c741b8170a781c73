"""The calls that are cancelled at every turn: opening, holding, hearing of changes and leaving, against any store."""

import asyncio
from contextlib import AsyncExitStack, suppress
from datetime import timedelta

import apportion
from apportion.runtime.io_thread import io_thread
from tests.groups.turns import Turns, cancelled_at, descriptors, tasks, until_nothing_is_left

CALLS = ("opening", "leaving", "changing", "holding", "serving")


class Cancelled:
    """A store in which members come and are cancelled. `leases` says how many leases there are in it."""

    def __init__(self, url, *, leases, connections=lambda: 0, ttl=timedelta(seconds=2)):
        self.url, self.leases, self.connections, self.ttl = url, leases, connections, ttl

    def opened(self, member_id="a"):
        options = {"lease_ttl": self.ttl, "drain_timeout": timedelta(seconds=5), "settle": timedelta(0)}
        return apportion.open_group(self.url, "g", partitions=4, member_id=member_id, **options)

    async def opening(self, at):
        """Cancel an opening; a group that was opened in time is left."""
        opening = self.opened()

        async def work(count):
            count()
            await opening.__aenter__()

        came = await at(work)
        await opening.__aexit__(None, None, None)  # of nothing, if it was cancelled
        return came

    async def leaving(self, at):
        """Cancel the end of a block."""

        async def work(count):
            async with self.opened():
                count()

        return await at(work)

    async def changing(self, at):
        """Cancel a consumer of changes, and another after it, while somebody joins."""
        async with self.opened() as group:

            async def work(count):
                count()
                async for change in group.changes():
                    if change.lost or len(change.gained) < 4:
                        return

            async with AsyncExitStack() as stack:
                joining = asyncio.ensure_future(stack.enter_async_context(self.opened("b")))
                came = await at(work)
                await joining
                await group.wait_until_settled()
        return came

    async def holding(self, at):
        """Cancel a hold."""
        async with self.opened() as group:
            await group.wait_until_settled()

            async def work(count):
                count()
                async with group.hold(0):
                    for _ in range(3):
                        await group.members()

            came = await at(work)
            assert not group._participation.holdings._holds
        return came

    async def serving(self, at):
        """Cancel the wait until all is settled, the handlers, and a whole block."""

        async def work(count):
            count()
            async with self.opened() as group:
                await group.wait_until_settled()
                serving = asyncio.ensure_future(group.serve(on_gained=_gained, on_lost=_gained))
                await group.members()
                group.leave()
                await serving

        return await at(work)

    async def left(self, call, *, step=1, is_here):
        """Cancel a call at every such turn; return the number of turns, and the leftovers after any."""
        io_thread()
        turns = Turns(asyncio.get_running_loop() if is_here else io_thread()._loop)
        try:
            await self.opening(_never)
            none = await self._none()
            turn, found, came = 0, {}, True
            while came:
                came = await getattr(self, call)(
                    lambda work, turn=turn: cancelled_at(turns, turn, work, is_here=is_here)
                )
                if left := await until_nothing_is_left(lambda: self._more_than(none)):
                    found[turn] = left
                turn += step
            return turn // step, found
        finally:
            turns.end()

    async def _none(self):
        await until_nothing_is_left(lambda: {"tasks": tasks()} if tasks() else {})
        return {"descriptors": descriptors(), "leases": self.leases(), "connections": self.connections()}

    def _more_than(self, none):
        there = {"descriptors": descriptors(), "leases": self.leases(), "connections": self.connections()}
        more = {name: count - none[name] for name, count in there.items() if count > none[name]}
        return more | ({"tasks": tasks()} if tasks() else {})


async def _never(work):
    await work(lambda: None)


async def _gained(partition, token):
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
