"""Lanes: moves of one mover's term that run at once, each with connections of its own.

Each lane takes the next group that may run beside those under way. So a group delays only its own lane while it waits
for a lock or a server.

Promises: after a move that was paused or aborted, no other begins; those under way go on to their ends. After an error,
or when the call is cancelled, each move under way first ends a fence that stands. Then all of them rest.
Refuses: two moves at once if one of them copies rows into a file of SQLite that the other one reads or writes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy.engine import make_url

from apportion.errors.brief import brief
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover import Mover
from apportion.shards.records import ShardRecord


@brief
@dataclass(frozen=True, slots=True, kw_only=True)
class MovesMade:
    """The result of a call: the moves that it made. `is_whole` tells whether it made all the moves that it had to make.

    It is False, for example, if another process has paused or aborted a move, or if a move is too young for `clean`.
    `why` is the reason, in words, if a limit of this call has ended a move.
    """

    moves: tuple[str, ...]
    is_whole: bool = True
    why: str = ""


Beside = Callable[[MoveGroup, MoveGroup], bool]
"""Whether two groups may move at once."""


class MoveLanes:
    """Runs groups in the lanes of some movers. `run` moves one group, and tells whether its move is over."""

    def __init__(
        self, movers: Sequence[Mover], run: Callable[[Mover, MoveGroup], Awaitable[bool]], *, may_run_beside: Beside
    ) -> None:
        self._free, self._run, self._may_run_beside = list(movers), run, may_run_beside
        self._under_way: dict[asyncio.Task[bool], tuple[Mover, MoveGroup]] = {}

    async def made(self, groups: Iterable[MoveGroup]) -> MovesMade:
        """Move groups, about in their order. Return the moves that are over. Errors are those of the first failure."""
        due, made, why = list(groups), list[str](), None
        try:
            while self._under_way or (due and why is None):
                if why is None:
                    self._begin(due)
                ended, _ = await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    mover, group = self._under_way.pop(task)
                    self._free.append(mover)
                    if task.result():
                        made.append(group.move)
                    else:
                        why = why or mover.reasons.get(group.move, "")
        finally:
            await self._rest()
        return MovesMade(moves=tuple(made), is_whole=why is None, why=why or "")

    def _begin(self, due: list[MoveGroup]) -> None:
        """Begin the next groups in the free lanes, and take them out of `due`."""
        for group in [*due]:
            if self._free and all(self._may_run_beside(group, other) for _, other in self._under_way.values()):
                due.remove(group)
                mover = self._free.pop()
                self._under_way[asyncio.ensure_future(self._run(mover, group))] = mover, group

    async def _rest(self) -> None:
        """Cancel the moves that are still under way, and wait until each has ended its fence.

        A second cancellation does not cut that off: it takes a few seconds at most.
        """
        for task in self._under_way:
            task.cancel()
        while not all(task.done() for task in self._under_way):
            with suppress(asyncio.CancelledError):
                await asyncio.wait(self._under_way)
        for task in self._under_way:
            if not task.cancelled():
                task.exception()  # the first error is raised


def beside_of(shards: Mapping[str, ShardRecord]) -> Beside:
    """Return the rule for the shards of a set. Between servers, any two groups may move at once.

    Between files, two groups may move at once unless the target of one is the source or the target of the other. The
    target of a move gets long transactions.
    """
    files = {shard for shard, each in shards.items() if make_url(each.url).get_backend_name() == "sqlite"}

    def _may(one: MoveGroup, other: MoveGroup) -> bool:
        written = {one.target} & {other.source, other.target} | {other.target} & {one.source}
        return not written & files

    return _may
