"""Course of a move: does the acts that the machine of `reshard` names, under one token.

It first guards both shards with the token. Then it reads, does one act, and reads again, until no act is left.

Promises: those of a mover. An error that no wait can mend ends a fence that stands, and is then raised. So does an
error of the observer. A move that exceeds a limit ends with a reason in words.
Refuses: to go on from a record that is older than the shards, as after a restore of the control store.
"""

import asyncio
from contextlib import nullcontext, suppress
from dataclasses import replace

from apportion.errors import (
    ApportionError,
    BadSnapshot,
    Conflict,
    Fenced,
    StaleEpoch,
    StoreDenied,
    StoreUnavailable,
    StoreWentBack,
)
from apportion.model.epoch import FencingToken
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover.book import KeptMove
from apportion.shards.mover.delay import RetreatDelay
from apportion.shards.mover.fence_time import FENCE_SECONDS, FenceTime
from apportion.shards.mover.limits import LimitWatch
from apportion.shards.mover.look import Look, looked
from apportion.shards.mover.means import KeptError, MoverMeans
from apportion.shards.mover.records import MoveEntry
from apportion.shards.mover.stop_points import step_of
from apportion.shards.reshard import BEFORE_SWITCH, CLEANING, WITH_TARGET, MoveAct, next_act
from apportion.tables.layout import Version

END_SECONDS = 5.0
"""The longest time for which a cancelled mover goes on, to end a fence."""

REST_SECONDS = 10.0
"""The longest wait of an aborted move for long readers of the source. As long as they read, its log stays there."""

SHORTEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.01, 1.0
"""The pauses before another try. Each one is twice as long as the one before."""

_UNREAD = Version(incarnation=0, number=0)  # a move that pauses announces and publishes nothing after this version


class Course:
    """The course of one move under one token."""

    def __init__(self, means: MoverMeans, move: str, token: FencingToken, *, cleans: bool, rows: int) -> None:
        self._means, self._move, self._token = means, move, token
        self._cleans, self._rows, self._accepted = cleans, rows, means.accepted
        self._book, self._clock, self._sites, self._acts = means.book, means.clock, means.sites, means.acts
        self._guarded: set[str] = set()
        self._fence = FenceTime(means.clock)
        self._rests_at: float | None = None
        self._delay = RetreatDelay(self._clock)
        self._limits = LimitWatch(means.limits, means.sites, means.clock)
        self._is_cleaned = self._is_last_look = self._is_put_off = self._is_over = self._ends = False
        self._is_muted = False
        self._trouble: Exception | None = None
        self.is_rescue: bool = False
        self.entry: MoveEntry | None = None
        self.why: str = ""  # the reason, in words, if a limit has ended the move

    async def run(self) -> None:
        """Do all acts that are due. While a database is silent, wait and try again. Errors are those of `Mover.run`."""
        pause = SHORTEST_PAUSE_SECONDS
        while True:
            try:
                if not await self.turn():
                    return
            except (StoreUnavailable, StoreDenied) as error:
                if not self._may_pass(error):
                    raise
                self._waits(error)
                if self._is_at_rest():
                    return
                if self._is_muted and self._trouble is not None and not self._fence.stands:
                    raise self._trouble from error
                self._means.check()
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            else:
                pause = SHORTEST_PAUSE_SECONDS

    async def turn(self) -> bool:
        """Read the state, and do the act that is due. Return False if no act is due."""
        self._note_end()
        newest, kept = await self._read()
        if kept is None:
            return False
        if _is_to_abort(kept.entry) or await self._exceeds(kept.entry):
            return await self._abort(kept)
        if await self._rests(kept):
            return True
        look = await self._look(kept, newest)
        return look is not None and await self._next_done(look)

    async def _next_done(self, look: Look) -> bool:
        """Do the next act after a look. Return False if none is due."""
        entry = look.kept.entry
        if look.is_contradicted:
            if (await self._read())[1] == look.kept:
                raise _old(entry)  # A fence that stands stays, because the target may have taken writes.
            return True
        if look.away is not None and entry.record.state == "aborted" and not self._fence.stands:
            await self._let_go(entry.group)
        act = self._next(look)
        if act is None and (error := look.away or self._trouble) is not None:
            if error is self._trouble and await self._exceeds(entry, is_urgent=True):
                return True
            raise error
        # No report reads a slot with old rows of an isolated key. So they are deleted at once.
        if act is None or (act.label in CLEANING and not self._cleans and entry.group.isolated is None):
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

    def _may_pass(self, error: ApportionError) -> bool:
        """Whether a wait may mend an error. An error that made the move pause is final."""
        if self.entry is None:  # the control store has let this process be elected
            return isinstance(error, StoreUnavailable | StoreDenied)
        return error is not self._trouble and self._accepted.may_pass(error, self.entry.group)

    def _is_at_rest(self) -> bool:
        """Whether `REST_SECONDS` have passed since this mover began to remove the log of an aborted move."""
        return self._rests_at is not None and self._clock.elapsed() > self._rests_at

    def _waits(self, error: ApportionError) -> None:
        """Tell the observer that a store did not answer, or that it denied a request."""
        if self.entry is not None:
            self._tell(self.entry, "waits", why=error.problem)

    def _note_end(self) -> None:
        """If this mover has to end, keep the error of `check`. No wait can mend it."""
        try:
            self._means.check()
        except ApportionError as error:
            self._trouble, self._is_over = self._trouble or error, True

    async def _exceeds(self, entry: MoveEntry, *, is_urgent: bool = False) -> bool:
        """Whether the log of the move exceeds its limit. A mover that has to end leaves that to the next one."""
        if self.is_rescue or self._fence.stands or self._is_over or entry.record.state not in BEFORE_SWITCH:
            return False
        if not self._ends and (reason := await self._limits.log_reason(entry, is_urgent=is_urgent)):
            self._ends, self.why, self._trouble = True, reason, None
            self._tell(entry, "ends", why=reason)
        return self._ends

    async def _rests(self, kept: KeptMove) -> bool:
        """Pause the move if its attempts are used up. Return False if it goes on, or is paused already."""
        entry = kept.entry
        if self.is_rescue or self._is_over or entry.wish != "go" or entry.record.state not in BEFORE_SWITCH:
            return False
        reason = self._limits.rest_reason(entry.group)
        if reason and await self._book.write(kept, entry.wished("pause")):
            self.why = reason
            self._tell(entry, "rests", why=reason)
        return bool(reason)

    async def _abort(self, kept: KeptMove) -> bool:
        aborted = replace(kept.entry.record, state="aborted")
        return await self._acted(MoveAct(label="record", record=aborted), kept, None)

    async def _let_go(self, group: MoveGroup) -> None:
        """Free the disk of the source of an aborted move, though its target is away."""
        log = await self._sites.kept_log(group)
        if log is not None:
            await log.let_go(self._token)

    async def _read(self) -> tuple[Version, KeptMove | None]:
        """Read the version of the table, and then the record. The record is None if the move is over.

        Raise the error of an unreadable record. After the error of an unreadable table, or of an unreadable list of
        moving slots, the move pauses: the end of a fence needs neither.
        """
        book, newest = self._book, _UNREAD
        try:
            newest = await book.newest()
        except BadSnapshot as error:
            self._trouble = self._trouble or error
        moves = await book.read(needs_list=False)
        self._trouble = self._trouble or moves.damaged.get(book.keys.moving)
        if (damage := moves.damaged.get(book.keys.move(self._move))) is not None:
            raise damage
        kept = moves.kept.get(self._move)
        self.entry = None if kept is None else kept.entry
        return newest, kept

    async def _look(self, kept: KeptMove, newest: Version) -> Look | None:
        """Guard both shards, and then read all facts. An unguarded target counts as away.

        After a new guard, the version and the record are read again.

        A target that refuses counts as away too. If no wait can mend that, the move pauses: the source is opened, and
        the refusal is raised.
        """
        group, read = kept.entry.group, kept
        is_guarded = {group.source, group.target} <= self._guarded
        await self._guard(group, group.source)
        away = await self._away(group)
        if not is_guarded:
            newest, again = await self._read()
            if again is None:
                return None
            read = again
        look = await looked(self._sites, read, newest, away, self._fence.hurry)
        if look.away is None:
            self._accepted.add(group)
        elif not self._may_pass(look.away):
            self._trouble = self._trouble or look.away
        self._fence.found(stands=look.source.state == "fenced")
        return look

    async def _away(self, group: MoveGroup) -> ApportionError | None:
        """Guard the target.

        Return the error of a target that is away. When the fence is late, the target is not asked.
        """
        if self._fence.is_late:
            return StoreUnavailable(f"shard {group.target}", f"writers have waited for {FENCE_SECONDS:g} s")
        try:
            async with self._fence.hurry(group.target):
                await self._guard(group, group.target)
        except Fenced:
            raise
        except ApportionError as error:
            return error
        return None

    async def _guard(self, group: MoveGroup, shard: str) -> None:
        if shard not in self._guarded:
            await (await self._sites.shard(shard)).guard(group, self._token)
            self._guarded.add(shard)

    def _next(self, look: Look) -> MoveAct | None:
        """Return the next act.

        After one try to end the capture of a complete move, the old rows are deleted before the next try. A long reader
        of the source may delay the drop of the triggers. Nobody needs the capture then, because no writer changes moved
        slots.
        """
        view = look.view(is_late=self._fence.is_late, is_cleaned=self._is_cleaned)
        if self._is_put_off and not self._is_cleaned:
            view = replace(view, is_captured=False)
        pauses = self.is_rescue or self._trouble is not None
        return next_act(replace(view, wish="pause") if pauses else view)

    async def _acted(self, act: MoveAct, kept: KeptMove, look: Look | None) -> bool:
        """Do an act between its two stop points. An error that no wait can mend is kept, and the move pauses."""
        step = step_of(act, is_fenced=kept.entry.record.state == "fenced")
        self._means.reached(f"{step}.before")
        self._is_put_off |= step == "uncapture" and kept.entry.record.state == "complete"
        if step.startswith("uncapture") and kept.entry.record.state == "aborted" and self._rests_at is None:
            self._rests_at = self._clock.elapsed() + REST_SECONDS
        try:
            async with self._fence.hurry(kept.entry.group.target, None) if act.label in WITH_TARGET else nullcontext():
                deleted = await self._acts.do(act, kept, self._token)
        except (StaleEpoch, Conflict):
            await asyncio.sleep(SHORTEST_PAUSE_SECONDS)  # another process was first: read again
            return True
        except Fenced:
            raise
        except ApportionError as error:
            if act.label == "fence" and isinstance(error, StoreUnavailable):
                self._limits.note_failure(error.reason)
            if self._may_pass(error):
                raise
            self._trouble = error
            return True
        finally:
            if act.label == "fence":  # The fence may stand, even without a reply.
                self._fence.begin()
            elif act.label in ("unfence", "settle-source"):
                self._fence.end()
        self._is_cleaned = act.label in ("clean-batch", "clean-back") and not deleted
        self._delay.note(act, step)
        if step == "retreat":
            self._limits.note_failure()
        self._means.reached(f"{step}.after")
        state = kept.entry if act.record is None else replace(kept.entry, record=act.record)
        copied, lag = (0, 0) if look is None else (look.channel.copied, look.channel.lag)
        self._tell(state, step, copied=copied, lag=lag)
        return True

    def _tell(self, entry: MoveEntry, step: str, *, copied: int = 0, lag: int = 0, why: str = "") -> None:
        """Tell the observer. One that raises hears nothing more: the move pauses, and the error is raised after that.

        If this mover was cancelled, or is a rescue, the error is dropped.
        """
        if self._is_muted:
            return
        with KeptError() as kept:
            self._means.tell(entry, step, copied=copied, rows=self._rows, lag=lag, why=why)
        self._is_muted = kept.error is not None
        if not self.is_rescue:
            self._trouble = self._trouble or kept.error


def _is_to_abort(entry: MoveEntry) -> bool:
    return entry.wish == "abort" and entry.record.state in BEFORE_SWITCH


def _old(entry: MoveEntry) -> StoreWentBack:
    """Return the error for a record that the shards contradict."""
    shown = f"the record of move {entry.group.move}"
    error = StoreWentBack(shown, "a switch of its slots", f"it is {entry.record.state}")
    error.hint = "Nothing was changed. Run apportion store restored URL, then apportion shards recover URL SET."
    return error
