"""A guarded sink: what members write to in a world. It keeps the highest token of each resource and refuses older ones.

It looks at the token alone: that no two sessions ever write under one is for the store to bring about, and for an
invariant to judge. A write travels like any message: it may come late, or when its sender is long dead.
"""

import asyncio
from dataclasses import dataclass

from apportion.sim.facts import Wrote
from apportion.sim.process import outside, running_name
from apportion.sim.world import World

SINK = "sink"


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class SinkToken:
    """A fencing token: incarnation of the store, then epoch of the ownership record."""

    incarnation: int
    epoch: int


class Sink:
    """Resources that are written under tokens."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.network.places.add(SINK)
        self.accepted: dict[str, tuple[SinkToken, str, float]] = {}

    async def write(self, resource: str, token: SinkToken, holder: str) -> bool | None:
        """Write; return whether it was accepted, or None when no reply came."""
        loop = asyncio.get_running_loop()
        network, me = self._world.network, running_name()
        reply: asyncio.Future[bool | None] = loop.create_future()
        for delay in network.journeys(me, SINK)[:1]:
            loop.call_later(delay, self._arrive, me, resource, token, holder, reply, context=outside())
        timer = loop.call_later(1.0, _finish, reply, None)
        try:
            return await reply
        finally:
            timer.cancel()

    def _arrive(
        self, sender: str, resource: str, token: SinkToken, holder: str, reply: "asyncio.Future[bool | None]"
    ) -> None:
        before = self.accepted.get(resource)
        accepted = before is None or token >= before[0]
        if accepted:
            world = self._world
            self.accepted[resource] = (token, holder, world.now)
            world.record(
                Wrote(
                    at=world.now,
                    resource=resource,
                    holder=holder,
                    incarnation=token.incarnation,
                    epoch=token.epoch,
                )
            )
        for delay in self._world.network.journeys(SINK, sender)[:1]:
            asyncio.get_running_loop().call_later(delay, _finish, reply, accepted, context=outside())


def _finish(reply: "asyncio.Future[bool | None]", result: bool | None) -> None:
    if not reply.done():
        reply.set_result(result)
