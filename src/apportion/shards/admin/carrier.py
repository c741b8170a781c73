"""Carrier: carries out plans as the one mover of a set. An election picks the mover.

Before a new move begins, the carrier finishes each move that another mover has begun. Before those moves, it finishes
pins of keys that were cut off.

Promises: the same call again resumes a call that was cut off anywhere. The weights of a plan are written before its
first move, so the aim of a plan that was cut off stays known. A move with a damaged record is reported at the end, and
delays no other move.
Refuses: to begin a move after one that was paused or aborted meanwhile, also in another lane. After the end of its
election, by SIGTERM or by another mover, it refuses any act but the end of a fence.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar

from apportion.errors import Conflict, NotOwner, PlanRefused
from apportion.groups.leader import AsyncElection, leader
from apportion.model.epoch import FencingToken
from apportion.runtime.clock import SystemClock
from apportion.runtime.events import checked_observer
from apportion.runtime.io_thread import io_thread
from apportion.runtime.waits import said
from apportion.shards.admin.facts import moves_of
from apportion.shards.admin.lanes import MoveLanes, MovesMade, beside_of
from apportion.shards.admin.places import open_sites
from apportion.shards.admin.remains import logged
from apportion.shards.admin.timelines import noticed
from apportion.shards.admin.weights import set_weights
from apportion.shards.channel import KEYS, ChannelWish
from apportion.shards.move_group import MoveGroup
from apportion.shards.mover import MoveEntry, MoveEvent, Mover
from apportion.shards.mover.book import KnownMoves
from apportion.shards.mover.copy_rate import CopyRate
from apportion.shards.mover.course import END_SECONDS
from apportion.shards.mover.limits import LIMITS, MoveLimits
from apportion.shards.mover.own_slots import OwnSlots
from apportion.shards.mover.rescue import MOVER_TTL
from apportion.shards.mover.reversal import check_reversible, reverse
from apportion.shards.mover.stop_points import stop_point
from apportion.shards.plan import PlannedGroup, ShardPlan, check_plan, groups_to_move
from apportion.shards.records import SetKeys
from apportion.shards.router import FollowedSet, set_followed, set_left, table_of
from apportion.stores.catalog import require_made

_WITHIN_SECONDS = 5.0
_OVER = frozenset({"complete", "cleaned"})

Result = TypeVar("Result")
MoveObserved = Callable[[MoveEvent], None]
OpenLane = Callable[[], AbstractAsyncContextManager[Mover]]
"""A function that opens a further mover of the same term, with connections of its own, until the end of a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """An elected mover, and the set that it works on."""

    followed: FollowedSet
    mover: Mover
    token: FencingToken
    own_slots: OwnSlots
    lane: OpenLane

    async def apply(
        self,
        plan: ShardPlan | None,
        *,
        is_reversible: bool = False,
        bytes_per_second: float | None = None,
        parallel: int = 1,
    ) -> MovesMade:
        """Finish all moves that have begun, then make the moves of a plan. At most `parallel` moves run at once.

        The log of a complete move is still on its source after a call that was cut off. It is ended here too.
        """
        followed = self.followed
        moves, table = await moves_of(followed), table_of(followed.follower.routes)
        states = {move: kept.entry.record.state for move, kept in moves.kept.items()}
        begun = [kept.entry.group for _, kept in sorted(moves.kept.items()) if _is_open(kept.entry)]
        complete = [kept.entry.group for _, kept in sorted(moves.kept.items()) if not _is_open(kept.entry)]
        names = {group.move for group in begun}
        if plan is not None:
            _check_reversed(plan, moves)
            moving = {slot: move for move, slots in moves.moving.items() for slot in slots}
            check_plan(plan, followed.keys.name, table, moving, names)
            await set_weights(self.followed, plan.weights)
        planned = {} if plan is None else dict(zip((each.move for each in plan.moves), plan.groups, strict=True))
        fresh = () if plan is None else groups_to_move(plan, table)
        rest = await logged(followed.shards, complete)
        groups = (*rest, *begun, *(each for each in fresh if each.move not in names))

        async def _run(mover: Mover, group: MoveGroup) -> bool:
            entry = await self._moved(mover, group, planned.get(group.move), is_reversible=is_reversible)
            if entry is None and group.isolated is not None:
                return group.isolated.is_placed((await mover.book.table())[0])
            return states.get(group.move) == "cleaned" or (entry is not None and entry.record.state in _OVER)

        async with AsyncExitStack() as exits:
            movers = [self.mover]
            while len(movers) < min(parallel, len(groups)):
                movers.append(await exits.enter_async_context(self.lane()))
            rate = None if bytes_per_second is None else CopyRate(bytes_per_second, self.mover.sites, self.mover.clock)
            for mover in movers:
                mover.acts.rate = rate
            made = await MoveLanes(movers, _run, may_run_beside=beside_of(followed.shards)).made(groups)
        if made.is_whole:
            check_records(moves)
        return made

    async def _moved(
        self, mover: Mover, group: MoveGroup, planned: PlannedGroup | None, *, is_reversible: bool
    ) -> MoveEntry | None:
        """Begin a move after a check that nothing would stop it later, or resume a paused move. Then run it."""
        mover.check()
        kept = (await moves_of(self.followed)).kept.get(group.move)
        rows, size = (0, 0) if planned is None else (planned.rows, planned.bytes)
        if kept is None:
            await mover.begin(group, size, is_reversible=is_reversible)
        elif kept.entry.wish == "pause":
            await mover.book.write(kept, kept.entry.wished("go"))
        return await mover.run(group.move, self.token, rows=rows)

    async def clean(self, soak: timedelta) -> MovesMade:
        """Delete the old rows of the moves that have been complete for at least `soak`, and release cleaned ones."""
        now, made, is_whole = time.time(), [], True
        moves = await moves_of(self.followed)
        for move, kept in sorted(moves.kept.items()):
            entry = kept.entry
            if entry.record.state not in _OVER:
                continue
            if entry.record.state == "complete" and now - entry.since < soak.total_seconds():
                is_whole = False
                continue
            self.mover.check()
            await self.mover.run(move, self.token, cleans=True)
            made.append(move)
        check_records(moves)
        return MovesMade(moves=tuple(made), is_whole=is_whole)

    async def reverse(self, names: Sequence[str]) -> MovesMade:
        """Reverse complete moves, or go on with their reversals. All are checked before the first one begins."""
        moves, made, mover = await moves_of(self.followed), list[str](), self.mover
        for move in names:
            check_reversible(move, moves.kept)
        for move in names:
            entry = await reverse(mover, move, self.token)
            if entry is None or entry.record.state not in _OVER:
                return MovesMade(moves=tuple(made), is_whole=False, why=mover.reasons.get(move, ""))
            made.append(move)
        return MovesMade(moves=tuple(made))

    async def abort(self) -> MovesMade:
        """Take back the moves with the wish to abort."""
        made, is_whole = [], True
        moves = await moves_of(self.followed)
        for move, kept in sorted(moves.kept.items()):
            if kept.entry.wish == "abort" or kept.entry.record.state == "aborted":
                self.mover.check()
                is_whole &= await self.mover.run(move, self.token) is None
                made.append(move)
        check_records(moves)
        return MovesMade(moves=tuple(made), is_whole=is_whole)


async def carried(
    url: str,
    name: str,
    work: Callable[[Carrier], Awaitable[Result]],
    observer: MoveObserved | None = None,
    *,
    settles: bool = True,
    channel: ChannelWish = KEYS,
    limits: MoveLimits = LIMITS,
    trusts: Callable[[str], bool] | None = None,
) -> Result:
    """Stand for election as the mover of a set. Once elected, run `work` on the I/O thread.

    Without `settles`, pins that were cut off are left to `work`. `channel` is the wish for moves that begin. `trusts`
    picks shards that may be on any timeline. Its default picks no shard, or each shard if `settles` is False.
    """
    SetKeys(name)
    observer = checked_observer(observer, "call(…")
    await io_thread().hop(require_made(url))
    async with leader(url, f"{name}.mover", lease_ttl=MOVER_TTL) as election:
        token = await _elected(name, election)
        working = partial(_worked, settles=settles, channel=channel, limits=limits, trusts=trusts)
        return await _heard_out(lambda: working(url, name, work, (election, token), observer))


async def _elected(name: str, election: AsyncElection) -> FencingToken:
    """Wait until this process is elected. `Conflict` if it is asked to end meanwhile, for example by SIGTERM.

    A long wait is logged with the command that names the other process.
    """
    see = f"apportion group explain URL {name}.mover 0"
    try:
        with said(lambda: f"set {name}: another process moves its slots (see {see}), and this call waits"):
            return await election.wait_until_elected()
    except NotOwner as error:
        raise _asked_to_end(name) from error


async def _heard_out(work: Callable[[], Awaitable[Result]]) -> Result:
    """Run work on the I/O thread. A caller that is cancelled waits until the work has ended the fences that stand.

    Otherwise the election, or the process, could end before them.
    """
    has_begun, ended = threading.Event(), Future[None]()

    async def _whole() -> Result:
        has_begun.set()
        try:
            return await work()
        finally:
            ended.set_result(None)

    try:
        return await io_thread().hop(_whole())
    except asyncio.CancelledError:
        if has_begun.is_set():
            await asyncio.wait([asyncio.wrap_future(ended)], timeout=2 * END_SECONDS)
        raise


def _check_term(name: str, election: AsyncElection, token: FencingToken) -> None:
    """Raise `Conflict` unless this process is the leader under its token.

    The shards themselves also refuse late acts.
    """
    if not _still_leads(election, token):
        raise _asked_to_end(name)


def _asked_to_end(name: str) -> Conflict:
    problem = f"this process no longer moves slots of set {name}: it was asked to end, or another process was elected."
    return Conflict(problem, "Nothing more was begun. Run the same call again to go on.")


def _still_leads(election: AsyncElection, token: FencingToken) -> bool:
    """Whether this process is the leader under its token. A different token belongs to a later term."""
    try:
        return election.token == token
    except NotOwner:
        return False


async def _worked(
    url: str,
    name: str,
    work: Callable[[Carrier], Awaitable[Result]],
    term: tuple[AsyncElection, FencingToken],
    observer: MoveObserved | None,
    *,
    settles: bool,
    channel: ChannelWish,
    limits: MoveLimits,
    trusts: Callable[[str], bool] | None,
) -> Result:
    election, token = term
    followed = await set_followed(url, SetKeys(name), _WITHIN_SECONDS)
    try:
        await noticed(followed, trusts or (lambda _: not settles))
        reached = stop_point()

        @asynccontextmanager
        async def _lane() -> AsyncIterator[Mover]:
            async with open_sites(name, followed.shards, channel, is_reader=False) as sites:
                yield Mover(
                    followed.store,
                    name,
                    sites,
                    {shard: record.node(shard) for shard, record in followed.shards.items()},
                    clock=SystemClock(),
                    wall=time.time,
                    reached=reached,
                    observer=observer,
                    check=partial(_check_term, name, election, token),
                    limits=limits,
                )

        async with _lane() as mover:
            own_slots = OwnSlots(followed.store, name, mover.sites, mover.book, token, reached=reached)
            if settles:
                await own_slots.settle()
                await mover.sites.close()  # A migration, in a process of its own, waits for the locks of open files.
            carrier = Carrier(followed=followed, mover=mover, token=token, own_slots=own_slots, lane=_lane)
            return await work(carrier)
    finally:
        await set_left(followed)


def _is_open(entry: MoveEntry) -> bool:
    """Whether a move goes on without `clean`. The old rows of an isolated key are deleted at once."""
    return entry.record.state != "complete" or entry.group.isolated is not None


def _check_reversed(plan: ShardPlan, moves: KnownMoves) -> None:
    """Refuse a plan with a move whose slots went back."""
    for move in plan.moves:
        kept = moves.kept.get(move.move)
        if kept is not None and kept.entry.record.state in _OVER and kept.entry.group != move:
            raise PlanRefused("the move was reversed; run apportion shards clean URL SET first", move.move)


def check_records(moves: KnownMoves) -> None:
    """Raise the error of an unreadable record. Called after the other moves have gone on."""
    for damage in moves.damaged.values():
        raise damage
