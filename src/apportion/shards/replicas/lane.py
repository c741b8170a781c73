"""NodeLane: the way of one process to one node: requests with a time-out each, and a bound on those under way.

Promises: a request ends within its time-out, with the node's answers or with None. The reason for None is kept as
`trouble`, and is never raised into the call of a user: other nodes may answer.
Refuses: more than 256 requests at a time to one node; a further one counts as unanswered at once.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import TypeVar

from apportion.errors import ApportionError, TimedOut
from apportion.runtime.clock import Clock
from apportion.shards.replicas.entry import NodeEntry
from apportion.shards.replicas.nodes.api import EntryAnswer, NodeIdentity, ReadAnswer
from apportion.shards.replicas.nodes.connect import OpenedNode
from apportion.shards.replicas.reach import Reach

Answer = TypeVar("Answer")

MOST_UNDER_WAY = 256


class NodeLane:
    """The requests of one process to one node."""

    def __init__(self, name: str, node: OpenedNode, clock: Clock) -> None:
        self.name: str = name
        self.reach: Reach = Reach()
        self.trouble: ApportionError | None = None
        self._node, self._clock = node, clock
        self._under_way = 0

    async def apply(
        self, entries: Sequence[NodeEntry], *, number: int, copy: bool, seconds: float
    ) -> tuple[EntryAnswer, ...] | None:
        """Send entries; return the answers, None without one."""
        return await self._asked(self._node.apply(entries, number=number, copy=copy), seconds)

    async def read(self, keys: Sequence[bytes], *, number: int, seconds: float) -> tuple[ReadAnswer, ...] | None:
        """Read keys; return the answers, None without one."""
        return await self._asked(self._node.read(keys, number=number), seconds)

    async def identity(self, *, seconds: float) -> NodeIdentity | None:
        """Return the identity of the node, None without an answer."""
        return await self._asked(self._node.identity(), seconds)

    async def close(self) -> None:
        """Close the handle of the node."""
        with suppress(ApportionError):
            await self._node.close()

    async def _asked(self, request: Coroutine[object, object, Answer], seconds: float) -> Answer | None:
        began = self._clock.elapsed()
        if self._under_way >= MOST_UNDER_WAY or not self.reach.may_send(began):
            request.close()
            return None
        self._under_way += 1
        try:
            async with asyncio.timeout(seconds):
                answer = await request
        except TimeoutError:
            self.trouble = TimedOut(f"an answer of node {self.name}", f"{seconds:g} s")
        except ApportionError as error:
            self.trouble = error
        else:
            self.trouble = None
            self.reach.answered(self._clock.elapsed() - began)
            return answer
        finally:
            self._under_way -= 1
        self.reach.gave_no_answer(self._clock.elapsed())
        return None
