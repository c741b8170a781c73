"""Mover: does the acts that the machine of `reshard` names, until the move is over.

The mover first guards both shards with its token. Then it reads, does one act, and reads again, until no act is left.
After the death of a mover, the next mover goes on from the state that it finds.

Promises: after an act with an unknown outcome, the mover reads again, and assumes nothing. While the control store
answers, writers of the source wait at most half a second for the last logged changes. A target that is silent in this
time counts as away. A mover that is cancelled, or is no longer elected, ends a fence that stands, and does nothing
else. A shard that accepted this mover once, and denies it now, is waited for as if it did not answer.
Refuses: to fence while the control store is slow, because a fence ends by a commit there. It also refuses to wait for a
store after its election has ended.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import replace

from apportion.errors import ApportionError, Conflict, Fenced, StaleEpoch, StoreDenied, StoreUnavailable
from apportion.model.epoch import FencingToken
from apportion.model.topology import Node
from apportion.runtime.clock import Clock
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.accepted_shards import AcceptedShards
from apportion.shards.mover.acts import MoveActs
from apportion.shards.mover.book import KeptMove, MoveBook
from apportion.shards.mover.delay import RetreatDelay
from apportion.shards.mover.events import MoveEvent, MoveObserver
from apportion.shards.mover.look import Look, looked
from apportion.shards.mover.records import MoveEntry
from apportion.shards.mover.sites import ShardSites
from apportion.shards.mover.stop_points import Reached, passed, step_of
from apportion.shards.reshard import BEFORE_SWITCH, CLEANING, WITH_TARGET, MoveAct, next_act
from apportion.stores.api import CoordinationStore
from apportion.tables.publisher import Publisher

FENCE_SECONDS = 0.5
"""The longest wait of writers for the last logged changes. After it, the mover opens the source again."""

END_SECONDS = 5.0
"""The longest time for which a cancelled mover goes on, to end a fence."""

REST_SECONDS = 10.0
"""The longest wait of an aborted move for long readers of the source. As long as they read, its log stays there."""

_SILENT_SECONDS = 15.0
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.01, 1.0


def unchecked() -> None:
    """Raise nothing, for a mover that never has to end early."""


class Mover:
    """Moves groups of one set, one after another. `nodes` are the shards as nodes of the set's table.

    `check` raises once this mover has to end. It is called before each act and in each wait.
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
    ) -> None:
        self.sites: ShardSites = sites
        self.check: Callable[[], None] = check
        self.clock: Clock = clock
        self.reached: Reached = reached
        self._wall, self._observer = wall, observer
        self.book: MoveBook = MoveBook(store, name, clock)
        self.acts: MoveActs = MoveActs(self.book, Publisher(store, name), sites, nodes, wall)
        self.accepted: AcceptedShards = AcceptedShards()

    async def begin(self, group: MoveGroup, size: int = 0, *, is_reversible: bool = False) -> None:
        """List a move, and write its record. `size` is the size of its rows, in bytes.

        `Conflict` if one of its slots moves already. `InvalidInput` or `SchemaDiffers` for anything that would stop the
        move later. `StoreDenied` if a shard denies a mover that it never accepted. After each of these errors, nothing
        was written.
        """
        entry = MoveEntry.begun(group, self._wall(), is_reversible=is_reversible)
        self.reached("list.before")
        pause = _SHORTEST_PAUSE_SECONDS
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
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
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
        course = _Course(self, move, replace(token, resource=keys.move(move)), cleans=cleans, rows=rows)
        course.is_rescue = is_rescue
        try:
            await self._driven(course)
        except asyncio.CancelledError:
            await course.end()
            raise
        return course.entry

    async def _driven(self, course: "_Course") -> None:
        pause = _SHORTEST_PAUSE_SECONDS
        while True:
            try:
                if not await course.turn():
                    return
            except (StoreUnavailable, StoreDenied) as error:
                if not course.may_pass(error):
                    raise
                course.waits(error)
                if course.is_at_rest():
                    return
                self.check()
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            else:
                pause = _SHORTEST_PAUSE_SECONDS

    def tell(self, entry: MoveEntry, step: str, *, copied: int = 0, rows: int = 0, lag: int = 0, why: str = "") -> None:
        """Tell the observer of a step that has ended."""
        if self._observer is not None:
            at = self.clock.elapsed()
            self._observer(MoveEvent.of(entry, step, at=at, copied=copied, rows=rows, lag=lag, why=why))


class _Course:
    """The course of one move under one token."""

    def __init__(self, mover: Mover, move: str, token: FencingToken, *, cleans: bool, rows: int) -> None:
        self._mover, self._move, self._token = mover, move, token
        self._cleans, self._rows, self._accepted = cleans, rows, mover.accepted
        self._book, self._clock, self._sites, self._acts = mover.book, mover.clock, mover.sites, mover.acts
        self._guarded: set[str] = set()
        self._fenced_at: float | None = None
        self._rests_at: float | None = None
        self._delay = RetreatDelay(self._clock)
        self._is_cleaned = self._is_last_look = self._is_put_off = False
        self._trouble: ApportionError | None = None
        self.is_rescue = False
        self.entry: MoveEntry | None = None

    async def turn(self) -> bool:
        """Read the state, and do the act that is due. Return False if no act is due."""
        self._note_end()
        kept = await self._kept()
        if kept is None:
            return False
        if kept.entry.wish == "abort" and kept.entry.record.state in BEFORE_SWITCH:
            aborted = replace(kept.entry.record, state="aborted")
            return await self._acted(MoveAct(label="record", record=aborted), kept, None)
        look = await self._look(kept)
        if look is None:
            return False
        act = self._next(look)
        if act is None and (error := look.away or self._trouble) is not None:
            raise error
        if act is None or (act.label in CLEANING and not self._cleans):
            return False
        if act.label == "release" and not self._is_last_look:
            self._is_last_look = True
            self._guarded.clear()  # A late act of an older mover comes before the new guard, or is refused.
            return True
        due = await self._delay.due(act, look.channel.lag)
        return due is None or await self._acted(due, look.kept, look)

    async def end(self) -> None:
        """End a fence that stands, or settle a switch that was made. Called when the mover is cancelled."""
        entry = self.entry
        if entry is None or entry.record.state not in ("fenced", "switched"):
            return
        self.is_rescue = True
        with suppress(ApportionError, TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                while await self.turn():
                    pass

    def may_pass(self, error: ApportionError) -> bool:
        """Whether a wait may mend an error. An error that made the move pause is final."""
        if self.entry is None:  # the control store has let this process be elected
            return isinstance(error, StoreUnavailable | StoreDenied)
        return error is not self._trouble and self._accepted.may_pass(error, self.entry.group)

    def is_at_rest(self) -> bool:
        """Whether `REST_SECONDS` have passed since this mover began to remove the log of an aborted move."""
        return self._rests_at is not None and self._clock.elapsed() > self._rests_at

    def waits(self, error: ApportionError) -> None:
        """Tell the observer that a store did not answer, or that it denied a request."""
        if self.entry is not None:
            self._mover.tell(self.entry, "waits", rows=self._rows, why=error.problem)

    def _note_end(self) -> None:
        """If this mover has to end, keep the error of `check`. No wait can mend it."""
        try:
            self._mover.check()
        except ApportionError as error:
            self._trouble = self._trouble or error

    async def _kept(self) -> KeptMove | None:
        """Read the record. Return None if the move is over. Raise the error of an unreadable record."""
        book = self._book
        moves = await book.read()
        if (damage := moves.damaged.get(book.keys.move(self._move))) is not None:
            raise damage
        kept = moves.kept.get(self._move)
        self.entry = None if kept is None else kept.entry
        return kept

    async def _look(self, kept: KeptMove) -> Look | None:
        """Guard both shards, and then read all facts. An unguarded target counts as away.

        A target that refuses counts as away too. If no wait can mend that, the move pauses: the source is opened, and
        the refusal is raised.
        """
        group = kept.entry.group
        await self._guard(group, group.source)
        away = await self._away(group)
        newest = await self._book.newest()
        read = await self._kept()
        if read is None:
            return None
        look = await looked(self._sites, read, newest, away, self._hurry)
        if look.away is None:
            self._accepted.add(group)
        elif not self.may_pass(look.away):
            self._trouble = self._trouble or look.away
        self._note_fence(look)
        return look

    async def _away(self, group: MoveGroup) -> ApportionError | None:
        """Guard the target.

        Return the error of a target that is away. When the fence is late, the target is not asked.
        """
        if self._is_late():
            return StoreUnavailable(f"shard {group.target}", f"writers have waited for {FENCE_SECONDS:g} s")
        try:
            async with self._hurry(group.target):
                await self._guard(group, group.target)
        except Fenced:
            raise
        except ApportionError as error:
            return error
        return None

    def _is_late(self) -> bool:
        since = self._fenced_at
        return since is not None and self._clock.elapsed() - since > FENCE_SECONDS

    @asynccontextmanager
    async def _hurry(self, shard: str, longest: float | None = _SILENT_SECONDS) -> AsyncIterator[None]:
        """Limit the time for replies of a shard in the block. The limit is short while writers wait behind a fence.

        `StoreUnavailable` when the limit is over.
        """
        since, limit = self._fenced_at, longest
        if since is not None:
            limit = max(0.0, since + FENCE_SECONDS - self._clock.elapsed())
        try:
            async with asyncio.timeout(limit):
                yield
        except TimeoutError as error:
            raise StoreUnavailable(f"shard {shard}", f"no reply within {limit:g} s") from error

    async def _guard(self, group: MoveGroup, shard: str) -> None:
        if shard not in self._guarded:
            await (await self._sites.shard(shard)).guard(group, self._token)
            self._guarded.add(shard)

    def _note_fence(self, look: Look) -> None:
        """Remember the time at which this mover first found the fence."""
        if look.source.state != "fenced":
            self._fenced_at = None
        elif self._fenced_at is None:
            self._fenced_at = self._clock.elapsed()

    def _next(self, look: Look) -> MoveAct | None:
        """Return the next act. After a try to end the capture of a complete move, the old rows come first.

        No writer changes moved slots, so the capture does nothing. A long reader of the source may delay the end of its
        triggers.
        """
        view = look.view(is_late=self._is_late(), is_cleaned=self._is_cleaned)
        if self._is_put_off and not self._is_cleaned:
            view = replace(view, is_captured=False)
        pauses = self.is_rescue or self._trouble is not None
        return next_act(replace(view, wish="pause") if pauses else view)

    async def _acted(self, act: MoveAct, kept: KeptMove, look: Look | None) -> bool:
        """Do an act between its two stop points. An error that no wait can mend is kept, and the move pauses."""
        step = step_of(act, is_fenced=kept.entry.record.state == "fenced")
        self._mover.reached(f"{step}.before")
        self._is_put_off |= step == "uncapture" and kept.entry.record.state == "complete"
        if step.startswith("uncapture") and kept.entry.record.state == "aborted" and self._rests_at is None:
            self._rests_at = self._clock.elapsed() + REST_SECONDS
        try:
            async with self._hurry(kept.entry.group.target, None) if act.label in WITH_TARGET else nullcontext():
                deleted = await self._acts.do(act, kept, self._token)
        except (StaleEpoch, Conflict):
            await asyncio.sleep(_SHORTEST_PAUSE_SECONDS)  # another process was first: read again
            return True
        except Fenced:
            raise
        except ApportionError as error:
            if self.may_pass(error):
                raise
            self._trouble = error
            return True
        finally:
            if act.label == "fence":  # The fence may stand, even without a reply.
                self._fenced_at = self._clock.elapsed()
            elif act.label in ("unfence", "settle-source"):
                self._fenced_at = None  # the next reading tells if it still stands
        self._is_cleaned = act.label in ("clean-batch", "clean-back") and not deleted
        self._delay.note(act, step)
        self._mover.reached(f"{step}.after")
        state = kept.entry if act.record is None else replace(kept.entry, record=act.record)
        copied, lag = (0, 0) if look is None else (look.channel.copied, look.channel.lag)
        self._mover.tell(state, step, copied=copied, rows=self._rows, lag=lag)
        return True
