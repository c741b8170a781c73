"""Mover: begins moves, and runs each of them as a course of acts until the move is over.

After the death of a mover, the next mover goes on from the state that it finds.

Promises: after an act with an unknown outcome, the mover reads again, and assumes nothing. While the control store
answers, writers of the source wait at most half a second for the last logged changes. A target that is silent in this
time counts as away. A mover that is cancelled, or is no longer elected, ends a fence that stands, and does nothing
else. A shard that accepted this mover once, and denies it now, is waited for as if it did not answer.
Refuses: to fence while the control store is slow, because a fence ends by a commit there. It also refuses to wait for a
store after its election has ended.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

from apportion.errors import StoreDenied, StoreUnavailable
from apportion.model.epoch import FencingToken
from apportion.model.topology import Node
from apportion.runtime.clock import Clock
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.accepted_shards import AcceptedShards
from apportion.shards.mover.acts import MoveActs
from apportion.shards.mover.book import MoveBook
from apportion.shards.mover.course import LONGEST_PAUSE_SECONDS, SHORTEST_PAUSE_SECONDS, Course
from apportion.shards.mover.events import MoveObserver
from apportion.shards.mover.limits import LIMITS, MoveLimits
from apportion.shards.mover.means import MoverMeans
from apportion.shards.mover.records import MoveEntry
from apportion.shards.mover.sites import ShardSites
from apportion.shards.mover.stop_points import Reached, passed
from apportion.stores.api import CoordinationStore
from apportion.tables.publisher import Publisher


def unchecked() -> None:
    """Raise nothing, for a mover that never has to end early."""


class Mover:
    """Moves groups of one set, one after another. `nodes` are the shards as nodes of the set's table.

    `check` raises once this mover has to end. It is called before each act and in each wait. `reasons` has the reason,
    in words, of each move that its limits have ended, "" for the others.
    """

    def __init__(
        self,
        store: CoordinationStore,
        name: str,
        sites: ShardSites,
        nodes: Mapping[str, Node],
        *,
        clock: Clock,
        wall: Callable[[], float],
        reached: Reached = passed,
        observer: MoveObserver | None = None,
        check: Callable[[], None] = unchecked,
        limits: MoveLimits = LIMITS,
    ) -> None:
        self.sites: ShardSites = sites
        self.check: Callable[[], None] = check
        self.clock: Clock = clock
        self.reached: Reached = reached
        self._wall = wall
        self.book: MoveBook = MoveBook(store, name, clock)
        self.acts: MoveActs = MoveActs(self.book, Publisher(store, name), sites, nodes, wall)
        self.accepted: AcceptedShards = AcceptedShards()
        self.reasons: dict[str, str] = {}
        self._means = MoverMeans(
            book=self.book,
            acts=self.acts,
            sites=sites,
            accepted=self.accepted,
            clock=clock,
            check=self._checked,
            reached=reached,
            observer=observer,
            limits=limits,
        )

    async def begin(self, group: MoveGroup, size: int = 0, *, is_reversible: bool = False) -> None:
        """List a move, and write its record. `size` is the size of its rows, in bytes.

        `Conflict` if one of its slots moves already. `InvalidInput` or `SchemaDiffers` for anything that would stop the
        move later. `StoreDenied` if a shard denies a mover that it never accepted. After each of these errors, nothing
        was written.
        """
        entry = MoveEntry.begun(group, self._wall(), is_reversible=is_reversible)
        self.reached("list.before")
        pause = SHORTEST_PAUSE_SECONDS
        while True:
            try:
                await (await self.sites.channel(group)).check(size)
                self.accepted.add(group)
                if await self.book.begin(entry):
                    break
            except (StoreUnavailable, StoreDenied) as error:
                if not self.accepted.may_pass(error, group):
                    raise
                self.tell(entry, "waits", why=error.problem)
            self.check()
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self.reached("list.after")
        self.tell(entry, "list")

    async def run(
        self, move: str, token: FencingToken, *, cleans: bool = False, rows: int = 0, is_rescue: bool = False
    ) -> MoveEntry | None:
        """Do all acts that are due, and return the record. Return None if nothing is left of the move.

        Without `cleans`, the move ends as `complete`: the old rows stay on the source. The log also stays there while
        another program holds a lock of its tables. After ten seconds of such a wait, an aborted move ends and leaves
        its log. `rows` is the number of rows of the group, for events. A rescue does only the acts that let writers go
        on. `Fenced` if a newer mover has begun. After `StoreUnavailable` the mover waits and tries again, as long as
        `check` allows it. After `StoreDenied` it does the same if both shards have accepted it before. After any other
        error, or an error of `check`, the mover ends a fence that stands, and then raises the error.
        """
        keys = self.book.keys
        course = Course(self._means, move, replace(token, resource=keys.move(move)), cleans=cleans, rows=rows)
        course.is_rescue = is_rescue
        try:
            await course.run()
        except asyncio.CancelledError:
            await course.end()
            raise
        self.reasons[move] = course.why
        return course.entry

    def tell(self, entry: MoveEntry, step: str, *, why: str = "") -> None:
        """Tell the observer of a step that has ended."""
        self._means.tell(entry, step, why=why)

    def _checked(self) -> None:
        self.check()
