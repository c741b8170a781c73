"""A guarded sink: the target of writes in a world. It keeps each resource's highest token and refuses older ones.

It looks only at the token. The store must ensure that no two sessions ever write under one token, and an invariant
judges that. A write travels like any message: it may come late, or when its sender is long dead.
"""

import asyncio
from dataclasses import dataclass

from apportion import guards
from apportion.errors import Fenced, StoreUnavailable
from apportion.model.epoch import FencingToken
from apportion.sim.facts import Writing, Wrote
from apportion.sim.world.loop import settle
from apportion.sim.world.process import outside, running_name
from apportion.sim.world.world import World

SINK = "sink"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    token: FencingToken
    values: tuple[object, ...] = ()


class Sink:
    """Resources that are written under tokens.

    `rows` are the accepted values of each resource, in the order of their arrival; `refused` are the refused values.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        world.network.places.add(SINK)
        self.accepted: dict[str, tuple[FencingToken, str, float]] = {}
        self.rows: dict[str, list[object]] = {}
        self.refused: dict[str, list[object]] = {}

    async def put(self, token: FencingToken, value: object) -> None:
        """Write a value under a token of `open_group`, as a guarded database does.

        `Fenced` is raised if a newer token came before: nothing was written. `StoreUnavailable` is raised if no reply
        came: the value may have been written, or may be written later.
        """
        guards.note(token)
        self._world.record(
            Writing(
                at=self._world.now,
                process=running_name(),
                resource=token.resource,
                holder=token.holder,
                incarnation=token.incarnation,
                epoch=token.epoch,
            )
        )
        accepted = await self._sent(_Write(token=token, values=(value,)))
        if accepted is None:
            raise StoreUnavailable("the sink", "no reply came", "The value may have been written. Write it again.")
        if not accepted:
            raise Fenced(token.resource, token, str(self.accepted[token.resource][0]))

    async def write(self, token: FencingToken) -> bool | None:
        """Write; return whether it was accepted, or None when no reply came."""
        return await self._sent(_Write(token=token))

    async def _sent(self, write: _Write) -> bool | None:
        loop = asyncio.get_running_loop()
        network, me = self._world.network, running_name()
        reply: asyncio.Future[bool | None] = loop.create_future()
        for delay in network.journeys(me, SINK)[:1]:
            loop.call_later(delay, self._arrive, me, write, reply, context=outside())
        timer = loop.call_later(1.0, settle, reply, None)
        try:
            return await reply
        finally:
            timer.cancel()

    def _arrive(self, sender: str, write: _Write, reply: "asyncio.Future[bool | None]") -> None:
        token = write.token
        before = self.accepted.get(token.resource)
        accepted = before is None or token >= before[0]
        (self.rows if accepted else self.refused).setdefault(token.resource, []).extend(write.values)
        if accepted:
            world = self._world
            self.accepted[token.resource] = (token, token.holder, world.now)
            world.record(
                Wrote(
                    at=world.now,
                    resource=token.resource,
                    holder=token.holder,
                    incarnation=token.incarnation,
                    epoch=token.epoch,
                )
            )
        for delay in self._world.network.journeys(SINK, sender)[:1]:
            asyncio.get_running_loop().call_later(delay, settle, reply, accepted, context=outside())
