"""The marker of a move: a number that the mover raises on the source, and that arrives on the target behind all rows.

Transactions arrive in the order of their commits. So the target has every change that was made before the marker was
raised, once it shows the raised marker.

Promises: a marker that is still on its way is waited for, and not raised again.
"""

import asyncio
from collections.abc import Sequence
from time import monotonic

from apportion.model.epoch import FencingToken
from apportion.runtime.both import both
from apportion.shards.move_group import MoveGroup
from apportion.shards.postgres.replication import source as at_source
from apportion.shards.postgres.script import Statement
from apportion.shards.postgres.server import ShardServer

NEAR_SECONDS = 0.02
"""A fence may begin after three markers in a row, each of which took at most this time to the target.

The limit doubles after each 20 markers, up to 160 ms. So a move between slow servers also ends, with a longer fence.
"""

_PROBES = 3
_PATIENCE, _MOST_DOUBLINGS = 20, 3
_POLL_SECONDS = 0.001
_MARKER = "SELECT attempt FROM apportion.marker WHERE move = %s"


class Marker:
    """The marker of one move group, and the times that it took to the target."""

    def __init__(self, group: MoveGroup, source: ShardServer, target: ShardServer) -> None:
        self._group, self._source, self._target = group, source, target
        self._ways: list[float] = []

    @property
    def is_near(self) -> bool:
        """Whether the last three markers were fast. The more markers there were, the slower they may be."""
        return is_near(self._ways)

    async def arrived(self, token: FencingToken, seconds: float) -> bool:
        """Raise the marker unless a raised one is on its way. Return whether it arrived within a time."""
        begun, move = monotonic(), self._group.move
        here, there = await both(self._on(self._source), self._on(self._target))
        if here <= there:
            here = await self._source.write(self._group, token, lambda base: at_source.raised(base, move))
        while there < here and monotonic() - begun < seconds:
            await asyncio.sleep(_POLL_SECONDS)
            there = await self._on(self._target)
        self._ways.append(monotonic() - begun if there >= here else seconds)
        return there >= here

    async def _on(self, server: ShardServer) -> int:
        [found] = await server.ask(Statement(_MARKER, (self._group.move,)))
        return int(found[0][0]) if found else 0


def is_near(ways: Sequence[float]) -> bool:
    """Whether a fence may begin after markers that took these times, in seconds.

    >>> is_near([0.3, 0.01, 0.01]), is_near([0.3, 0.01, 0.01, 0.01]), is_near([0.1] * 60)
    (False, True, True)
    """
    limit = NEAR_SECONDS * 2 ** min(len(ways) // _PATIENCE, _MOST_DOUBLINGS)
    return len(ways) >= _PROBES and max(ways[-_PROBES:]) <= limit
