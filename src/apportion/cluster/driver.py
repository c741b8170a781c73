"""Driver: what carries one member of one group through its lives: it waits, asks the pure machines, and acts.

Promises: all that decides is in `share`, `controller` and `handover`; this file feeds them what the store shows and
answers, and does what they say, in order. What waits here is bounded by time, or ends with the session.
Refuses: threads. It runs on the I/O thread's loop, or on that of the simulated world.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from apportion.cluster.controller import Controller, Write
from apportion.cluster.damage import log_damage
from apportion.cluster.holdings import Holdings
from apportion.cluster.lacking import known, lacking_in
from apportion.cluster.options import Options
from apportion.cluster.patience import Patience
from apportion.cluster.publication import publish_owners
from apportion.cluster.records import LEAVES, Keys
from apportion.cluster.seat import Seat, agree, ask_to_leave
from apportion.cluster.session import Part, Sessions
from apportion.cluster.share import Answered, Commit, Drain, Ended, Joined, Quiet, Seen, Serve, Share, Stop, Tick
from apportion.cluster.statistics import Statistics
from apportion.cluster.view import View
from apportion.errors import Compacted, LeaseLost, StoreUnavailable, StoreWentBack
from apportion.model.clock import Clock
from apportion.model.epoch import FencingToken
from apportion.stores.api import Change, Committed, CoordinationStore, Outcome, Refused, Scan, Unknown

logger = logging.getLogger("apportion.group")
_OVER = (Compacted, LeaseLost, StoreUnavailable, StoreWentBack)
_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 2.0
_LOOKS_PER_TTL = 20


class Driver:
    """One member of one group. `run` goes from life to life until it was asked to leave."""

    def __init__(self, store: CoordinationStore, sessions: Sessions, clock: Clock, options: Options) -> None:
        self.options = options
        self.view = View(Keys(group=options.group), options.record.partitions)
        # A move compares two keys, and all moves of a commit compare our own record.
        width = max(1, (store.capabilities().max_operations - 1) // 2)
        self.share = Share(self.view, options.member_id, width=width)
        self.controller = Controller(self.view, options.record, options.member_id, throttle=options.throttle)
        self.holdings = Holdings(clock, quiet=self._quiet, told=self._turn)
        self.statistics = Statistics()
        self._store, self._sessions, self._clock = store, sessions, clock
        self._seat: Seat | None = None
        self._loop = asyncio.get_running_loop()
        self._inbox: list[Change | Scan | Answered | Quiet | None] = []
        self._woken, self._turned = asyncio.Event(), asyncio.Event()
        self._asides: set[asyncio.Task[None]] = set()
        self._patience = Patience(
            drain_seconds=options.drain_seconds,
            ttl_seconds=options.ttl_seconds,
            progress_seconds=options.progress_seconds,
        )
        self._is_leaving = False
        self._gone_at: float | None = None

    async def run(self) -> None:
        """Live, again and again; returns when it has left, raises what no new life can mend."""
        pause = _PAUSE_SECONDS
        while not self._is_leaving:
            lives = self.statistics.sessions
            try:
                await self._live()
            except _OVER as error:
                logger.warning("%s: the session of %s is over: %s", self.options.group, self.options.member_id, error)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS) if lives == self.statistics.sessions else _PAUSE_SECONDS
                await asyncio.sleep(pause)

    def leave(self) -> None:
        """Hand all over and go; `run` returns then. From any thread."""
        self._is_leaving = True
        self._tell(None)

    def why_not(self, partition: int) -> str:
        """Say why a partition is not ours now."""
        if not self.holdings.is_current:
            return "the store has not confirmed our session in time"
        if self.view.is_damaged(partition):
            return f"its record is damaged; mend it with: apportion group repair URL {self.options.group}"
        owner = self.view.owned(partition).ownership.owner
        return "nobody owns it" if owner is None else f"{owner} owns it"

    async def turn(self) -> None:
        """Wait until something has changed."""
        await self._turned.wait()

    async def _live(self) -> None:
        """Live one life: from the lease to its end, whichever of its parts ends first."""
        self._patience.renew()
        agreed = await agree(self._store, self.options.group, self.options.record)
        # The last scan before the watch: either accepts another life of the store, and both must be of one.
        scan = await self._scanned()
        part = await self._sessions.join(self.options.ttl_seconds, self.holdings.confirm, incarnation=scan.incarnation)
        self.statistics.sessions += 1
        # What was begun in an earlier life may have ended meanwhile; all else is of that life.
        self._inbox = [each for each in self._inbox if isinstance(each, Quiet)]
        self._step(Seen(touched=self.view.load(scan, self._clock.elapsed())))
        publishing = publish_owners(self._store, self.view, self.controller, self.turn)
        running = (part.keep(), self._watch(scan.revision), self._serve(part, agreed), publishing)
        tasks = [asyncio.ensure_future(each) for each in running]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.holdings.deadline = float("-inf")
            self.holdings.cancel()
            await _ended([*tasks, *self._asides])
            self._step(Ended())
            self.controller.answered(False, self._clock.elapsed())  # of a write whose answer nobody awaits any more
            if part.is_forfeit:
                await self._outlived(part.ttl_seconds)
            seat, self._seat = self._seat, None
            is_clear = not part.is_alone and (seat is None or await seat.is_cleared())
            await part.end(is_clear=is_clear)
        for task in done:
            task.result()

    async def _outlived(self, ttl_seconds: float) -> None:
        """Wait with giving up what was ours until our work on it has ended, or our lease would have."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ttl_seconds):
                while not self.holdings.all_quiet:
                    self._woken.clear()
                    await self._woken.wait()

    async def _scanned(self) -> Scan:
        """Return all there is; refuse a store that shows less than we saw of the same life before: there it would give
        its epochs once more.
        """
        before = known(self.view)
        scan = await self._store.scan(self.view.keys.live)
        lacking = lacking_in(scan, before)
        if lacking is not None:
            raise StoreWentBack(f"the store of {self.options.group}", *lacking)
        return scan

    async def _serve(self, part: Part, agreed: int) -> None:
        """Do what the machines say until the store has ended the session, or we have left."""
        self._seat = seat = Seat(self._store, self.view, self.options, agreed=agreed, lease=part.lease)
        patience = self._clock.elapsed() + part.ttl_seconds + 1
        patience += self.options.drain_seconds if self.options.replaces else 0
        while not part.ended.is_set():
            now = self._clock.elapsed()
            due = None if seat.session is not None else now + part.ttl_seconds / _LOOKS_PER_TTL
            if seat.session is None and (self.share.me.session or self._is_leaving):
                return
            self._is_leaving |= seat.is_replaced
            if seat.session is None and self.holdings.all_quiet:  # nothing of an earlier life goes on
                await seat.try_to_join(is_patient=now < patience)
                if now >= patience:
                    return  # the group itself has changed: agree anew
            if seat.session is not None and not self.share.me.session:
                self._step(Joined(session=seat.session))
            if seat.session is not None and self._is_leaving and await self._has_left(seat, now):
                return
            if self.share.me.session and (write := self.controller.look(now)) is not None:
                self._aside(self._write(write))
            self._press(part, now)
            await self._wait(due)

    async def _wait(self, due: float | None) -> None:
        """Take what is in the inbox, once there is something, or something is due."""
        dues = [due, self.share.wakes_at(), self._gone_at, self._patience.wakes_at(self._oldest())]
        dues += [self.controller.wakes_at()] if self.share.me.session else []
        dues += [self.holdings.deadline] if self.holdings.is_current else []
        first = min(each for each in dues if each is not None)
        with suppress(TimeoutError):
            async with asyncio.timeout(None if first == float("inf") else max(0.0, first - self._clock.elapsed())):
                await self._woken.wait()
        self._woken.clear()
        news, self._inbox = self._inbox, []
        quiet = frozenset(partition for each in news if isinstance(each, Quiet) for partition in each.partitions)
        for each in news:
            if isinstance(each, Change):
                self._step(Seen(touched=self.view.apply(each, self._clock.elapsed())))
            elif isinstance(each, Scan):
                self._step(Seen(touched=self.view.load(each, self._clock.elapsed())))
            elif isinstance(each, Answered):
                self._step(each)
        self._patience.ended(quiet)
        self._step(Quiet(partitions=quiet) if quiet else Tick())
        self.note_turn()

    def _step(self, event: Joined | Seen | Answered | Quiet | Ended | Tick) -> None:
        """Ask the machine, and do what it says."""
        if isinstance(event, Seen):
            log_damage(self.options.group, event.touched.damaged)
        now = self._clock.elapsed()
        gained: dict[int, FencingToken] = {}
        lost: list[Drain | Stop] = []
        for action in self.share.step(event, now):
            if isinstance(action, Serve):
                gained[action.partition] = self._token(action.partition, action.epoch)
                self._say("gained", action.partition, f"epoch {action.epoch}, {action.why}")
            elif isinstance(action, Commit):
                self._aside(self._commit(action))
            else:
                lost.append(action)
        if gained:
            self.holdings.grant(gained)
            self.statistics.gained += len(gained)
        if lost:
            self._withdraw(lost, now)

    def _withdraw(self, actions: list[Drain | Stop], now: float) -> None:
        partitions = [action.partition for action in actions]
        self._patience.lost(partitions, now)
        self.holdings.withdraw(partitions)
        self.statistics.loses(partitions, now)
        for action in actions:
            if isinstance(action, Stop):
                self.holdings.cancel(action.partition)
            self._say("loses", action.partition, self._cause(action))

    def _cause(self, action: Drain | Stop) -> str:
        target = self.view.target
        if isinstance(action, Stop) or target is None:
            return "our session is over"
        return f"target {target.generation} names {target.owner(action.partition) or 'nobody'}"

    def _say(self, what: str, partition: int, why: str) -> None:
        logger.info("%s: %s %s %d: %s", self.options.group, self.options.member_id, what, partition, why)

    def _press(self, part: Part, now: float) -> None:
        """Cancel what does not end in time; when that does not help, give up the session."""
        if not self.holdings.is_current:
            self.holdings.cancel()
        for partition in self._patience.to_cancel(now):
            self.holdings.cancel(partition)
        why = self._patience.verdict(self._oldest(), now)
        if why is not None:
            logger.error("%s: %s gives up its session: %s", self.options.group, self.options.member_id, why)
            self.statistics.given_up += 1
            self.statistics.stuck = why
            part.forfeit()

    def _oldest(self) -> tuple[float, int] | None:
        """Return the hold at work for the longest; none before we have joined: it cost its own session already."""
        return self.holdings.oldest() if self.share.me.session else None

    async def _has_left(self, seat: Seat, now: float) -> bool:
        """Let go of everything; whether that is done, or has taken too long."""
        if self._gone_at is None:
            self._gone_at = now + self.options.drain_seconds + self.options.ttl_seconds
            if self.options.is_static:
                self.holdings.withdraw(list(self.share.serving))
            else:
                await ask_to_leave(self._store, self.view, self.options.member_id, LEAVES)
        is_idle = self.holdings.all_quiet if self.options.is_static else self._has_nothing()
        if is_idle or now >= self._gone_at:
            self.holdings.withdraw(list(self.share.serving))  # before others may take what is left
            await seat.leave()
            return True
        return False

    def _has_nothing(self) -> bool:
        me = self.share.me
        mine = any(
            (owned.ownership.owner, owned.ownership.session) == (me.id, me.session) for owned in self.view.own.values()
        )
        return not mine and self.share.is_idle and not self.view.wanted(me.id)

    async def _commit(self, commit: Commit) -> None:
        outcome = await self._committed(commit)
        revision = outcome.revision if isinstance(outcome, Committed) else None
        if revision is not None:
            self.statistics.moved(commit.moves, self.view, self._clock.elapsed())
        self._hear(Answered(batch=commit.batch, revision=revision, is_refused=isinstance(outcome, Refused)))

    async def _write(self, write: Write) -> None:
        outcome = await self._committed(write)
        now = self._clock.elapsed()
        if isinstance(outcome, Committed):
            self._step(Seen(touched=self.view.wrote([write.put], outcome.revision, now)))
        self.controller.answered(isinstance(outcome, Committed), now)
        self._hear(None)

    async def _committed(self, commit: Commit | Write) -> Outcome:
        puts = commit.puts if isinstance(commit, Commit) else (commit.put,)
        try:
            return await self._store.commit(when=commit.when, puts=puts)
        except _OVER as error:
            return Unknown(reason=error.problem)

    async def _watch(self, after: int) -> None:
        """Hear of all changes; when some are gone from the history, of what there is then. The lease lives on."""
        while True:
            try:
                async for change in self._store.watch(self.view.keys.live, after=after):
                    self._hear(change)
            except Compacted:
                scan = await self._scanned()
                if scan.incarnation != self.view.incarnation:
                    raise
                self._hear(scan)
                after = scan.revision
            else:
                return

    def _token(self, partition: int, epoch: int) -> FencingToken:
        session = f"{self.options.member_id} {self.share.me.session}"
        resource = f"{self.options.group}/{partition}"
        return FencingToken(resource=resource, holder=session, incarnation=self.view.incarnation, epoch=epoch)

    def _aside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    def _quiet(self, partitions: frozenset[int]) -> None:
        self._tell(Quiet(partitions=partitions))

    def _tell(self, news: Quiet | None) -> None:
        """Put something into the inbox, from any thread."""
        with suppress(RuntimeError):  # the loop has ended with the interpreter
            self._loop.call_soon_threadsafe(self._hear, news)

    def _hear(self, news: Change | Scan | Answered | Quiet | None) -> None:
        self._inbox.append(news)
        self._woken.set()

    def _turn(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.note_turn)

    def note_turn(self) -> None:
        """Wake all who wait in `turn`."""
        self._turned.set()
        self._turned = asyncio.Event()


async def _ended(tasks: "list[asyncio.Future[None]]") -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
