"""Driver: carries one member of one group through its lives: it waits, asks the pure machines, and acts.

Promises: `member`, `controller` and `handover` make all decisions. The driver passes them the store's news and answers,
and carries out their actions in order. Each wait is bounded by time, or ends with the session. No error is dropped: a
failed commit is reported to the machine, any other error ends the session. Only misuse ends the member.
Refuses: threads. The driver runs on the I/O thread's loop, or on the loop of the simulated world.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any

from apportion.errors import (
    ApportionError,
    BadSnapshot,
    DuplicateMember,
    InvalidInput,
    NotPromised,
    StoreClosed,
    StoreDenied,
    StoreUnavailable,
)
from apportion.groups.agreement import Agreement
from apportion.groups.batches import Commit, CommitAnswered
from apportion.groups.controller.controller import Controller, Write
from apportion.groups.controller.publish_owners import publish_owners
from apportion.groups.deadlines import Deadlines
from apportion.groups.departure import AGAIN_SECONDS, Departure
from apportion.groups.effects import Effects
from apportion.groups.holdings import Holdings
from apportion.groups.member import Ended, Joined, MemberMachine, Quiet, Seen, Tick
from apportion.groups.membership import Membership
from apportion.groups.opening import Options
from apportion.groups.session import GroupLease, Sessions
from apportion.groups.statistics import GroupSummary, Statistics, sight
from apportion.groups.view.damage import log_damage
from apportion.groups.view.feed import GroupFeed
from apportion.groups.view.records import KEPT_SESSIONS, GroupKeys
from apportion.groups.view.view import View
from apportion.runtime.clock import Clock
from apportion.runtime.endings import to_its_end
from apportion.stores.api import Committed, CoordinationStore, Outcome, Refused, Scan, StoreChange, Unknown

logger = logging.getLogger("apportion.group")
_AWAY = (StoreUnavailable, StoreDenied)
_MISUSE = (DuplicateMember, InvalidInput, NotPromised, StoreClosed)
_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 2.0
_LOOKS_PER_TTL = 20
News = StoreChange | Scan | CommitAnswered | Quiet | BaseException | None


class Driver:
    """One member of one group. `run` starts life after life until the member is asked to leave."""

    def __init__(self, store: CoordinationStore, sessions: Sessions, clock: Clock, options: Options) -> None:
        self.options = options
        record = options.record
        self.view = View.of(GroupKeys(group=options.group), record)
        self._agreement = Agreement(store, options.group, record)
        # A move compares three keys at most, and all moves of a commit compare our own record.
        self._width = max(1, (store.capabilities().max_operations - 1) // 3)
        self.member = MemberMachine(self.view, options.member_id, width=self._width)
        self.controller = Controller(
            self.view, record, options.member_id, throttle=options.throttle, settle_seconds=options.settle_seconds
        )
        self.holdings = Holdings(clock, quiet=self._quiet, told=self._turn)
        self.statistics = Statistics()
        self._store, self._sessions, self._clock = store, sessions, clock
        self._membership: Membership | None = None
        self._loop = asyncio.get_running_loop()
        self._inbox: list[News] = []
        self._woken, self._turned = asyncio.Event(), asyncio.Event()
        self._asides: set[asyncio.Task[None]] = set()
        self._deadlines = Deadlines(
            drain_seconds=options.drain_seconds,
            ttl_seconds=options.ttl_seconds,
            progress_seconds=options.progress_seconds,
        )
        self._effects = Effects(self.view, options, self.holdings, self.statistics, self._deadlines)
        self._feed = GroupFeed(store, self.view, heard=self._hear, troubled=self._say_once)
        self._departure = Departure(options)
        self._is_leaving, self._told = False, ""
        self._former: deque[int] = deque(maxlen=KEPT_SESSIONS)

    async def run(self) -> None:
        """Live one life after another; return when the member has left, raise misuse that no new life can mend."""
        pause = _PAUSE_SECONDS
        while not self._is_leaving:
            lives = self.statistics.sessions
            [error] = await asyncio.gather(self._live(), return_exceptions=True)
            if error is None:
                continue
            if self._is_final(error):
                raise error
            trace = None if isinstance(error, ApportionError) else error
            words = "%s: the session of %s is over: %s"
            logger.warning(words, self.options.group, self.options.member_id, error, exc_info=trace)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS) if lives == self.statistics.sessions else _PAUSE_SECONDS
            await asyncio.sleep(pause)

    def _is_final(self, error: BaseException) -> bool:
        """Whether no new life can mend an error: a misuse, a refusal before the first session, an interrupt."""
        if isinstance(error, StoreDenied):
            return not self.statistics.sessions
        return not isinstance(error, Exception) or (isinstance(error, _MISUSE) and not isinstance(error, BadSnapshot))

    def leave(self) -> None:
        """Hand over all partitions and leave; `run` returns after that. From any thread."""
        self._is_leaving = True
        self._tell(None)

    def sight(self) -> GroupSummary:
        """Return this member's view of its group. O(partitions)."""
        is_controller = self.controller.term is not None
        return sight(self.view, owned=len(self.holdings), is_controller=is_controller, now=self._clock.elapsed())

    async def turn(self) -> None:
        """Wait until something has changed."""
        await self._turned.wait()

    async def _live(self) -> None:
        """Live one life, from the lease until the first of the life's parts ends."""
        self._deadlines.renew()
        agreed = await self._agreement.reached(is_over=lambda: self._is_leaving)
        # The last scan before the watch: each accepts another life of the store, and both must be of the same life.
        scan = await self._feed.scan()
        part = await self._sessions.join(self.options.ttl_seconds, self.holdings.confirm, incarnation=scan.incarnation)
        self.statistics.sessions += 1
        # Work of an earlier life may have ended meanwhile: keep this news. All other news belongs to that life.
        self._inbox = [each for each in self._inbox if isinstance(each, Quiet)]
        if scan.incarnation != self.view.incarnation:
            self._former.clear()  # revisions of the store's former life say nothing about this life
        self._step(Seen(touched=self.view.load(scan, self._clock.elapsed())))
        publishing = publish_owners(self._store, self.view, self.controller, self.turn)
        running = (part.keep(), self._feed.follow(scan.revision), self._serve(part, agreed), publishing)
        tasks = [asyncio.ensure_future(each) for each in running]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await to_its_end(self._end(part, tasks))
        for task in done:
            task.result()

    async def _end(self, part: GroupLease, tasks: Iterable["asyncio.Future[None]"]) -> None:
        """End a life: it leaves no partition held, no task, and no record on a lease that lives on."""
        self.holdings.deadline = float("-inf")
        self.holdings.cancel()
        await _ended([*tasks, *self._asides])
        self._former.extend(filter(None, (self.member.me.session,)))
        self._step(Ended())
        self.controller.answered(False, self._clock.elapsed())  # for a write that nobody awaits any more
        membership, self._membership = self._membership, None
        if part.is_forfeit or (membership is not None and membership.is_damaged):
            await self._outlived(part.ttl_seconds)
        is_clear = not part.is_alone and (membership is None or await membership.is_cleared())
        await part.end(is_clear=is_clear)

    async def _outlived(self, ttl_seconds: float) -> None:
        """Delay giving up our partitions until our work on them has ended, or our lease would have ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ttl_seconds):
                while not self.holdings.all_quiet:
                    self._woken.clear()
                    await self._woken.wait()

    async def _serve(self, part: GroupLease, agreed: int) -> None:
        """Carry out the machines' actions until the store has ended the session, or we have left."""
        former = tuple(self._former)
        self._membership = membership = Membership(
            self._store, self.view, self.options, agreed=agreed, lease=part.lease, former=former
        )
        patience = self._clock.elapsed() + part.ttl_seconds + 1
        patience += self.options.drain_seconds if self.options.replaces else 0
        while not part.ended.is_set():
            now = self._clock.elapsed()
            due = None if membership.session is not None else now + part.ttl_seconds / _LOOKS_PER_TTL
            if membership.session is None and (self.member.me.session or self._is_leaving):
                return
            self._is_leaving |= membership.is_replaced
            try:
                if await self._is_done(membership, now, patience):
                    return
            except _AWAY as error:
                self._say_once(error)
                due = now + AGAIN_SECONDS
            if self.member.me.session and (write := self.controller.look(now)) is not None:
                self._aside(self._write(write))
            self._press(part, now)
            await self._wait(due)

    async def _is_done(self, membership: Membership, now: float, patience: float) -> bool:
        """Join or leave, as needed; return whether this life is done."""
        if membership.session is None and self.holdings.all_quiet:  # no work of an earlier life goes on
            await membership.try_to_join(is_patient=now < patience)
            if now >= patience:
                return True  # the group itself has changed: agree anew
        if membership.session is not None and not self.member.me.session:
            self._step(Joined(session=membership.session))
        return membership.session is not None and self._is_leaving and await self._has_left(membership, now)

    def _say_once(self, error: ApportionError) -> None:
        """Log why a request to the store failed and is repeated, unless the last message said the same."""
        if self._told != error.problem:
            self._told = error.problem
            logger.warning("%s: %s asks again: %s", self.options.group, self.options.member_id, error)

    async def _wait(self, due: float | None) -> None:
        """Wait until there is news or an action is due, then take all news from the inbox."""
        dues = [due, self.member.wakes_at(), self._departure.wakes_at(), self._deadlines.wakes_at(self._oldest())]
        dues += [self.controller.wakes_at()] if self.member.me.session else []
        dues += [self.holdings.deadline] if self.holdings.is_current else []
        first = min(each for each in dues if each is not None)
        with suppress(TimeoutError):
            async with asyncio.timeout(None if first == float("inf") else max(0.0, first - self._clock.elapsed())):
                await self._woken.wait()
        self._woken.clear()
        news, self._inbox = self._inbox, []
        for each in news:
            self._take(each)
        ended = (partition for each in news if isinstance(each, Quiet) for partition in each.partitions)
        quiet = frozenset(filter(self.holdings.is_quiet, ended))  # the news may be old
        self._deadlines.ended(quiet)
        self._step(Quiet(partitions=quiet) if quiet else Tick())
        self.note_turn()

    def _take(self, news: News) -> None:
        """Take one piece of news; an error that nobody awaited ends the session."""
        if isinstance(news, StoreChange):
            self._step(Seen(touched=self.view.apply(news, self._clock.elapsed())))
        elif isinstance(news, Scan):
            self._step(Seen(touched=self.view.load(news, self._clock.elapsed())))
        elif isinstance(news, CommitAnswered):
            self._step(news)
        elif isinstance(news, BaseException):
            raise news

    def _step(self, event: Joined | Seen | CommitAnswered | Quiet | Ended | Tick) -> None:
        """Pass an event to the machine, and carry out its actions."""
        if isinstance(event, Seen):
            log_damage(self.options.group, event.touched.damaged)
        now = self._clock.elapsed()
        actions = self.member.step(event, now)
        for action in actions:
            if isinstance(action, Commit):
                self._aside(self._commit(action))
        self._effects.act(actions, self.member.me, now)

    def _press(self, part: GroupLease, now: float) -> None:
        """Cancel work that does not end in time; if that does not help, give up the session."""
        if not self.holdings.is_current:
            self.holdings.cancel()
        for partition in self._deadlines.to_cancel(now):
            self.holdings.cancel(partition)
        why = self._deadlines.verdict(self._oldest(), now)
        if why is not None:
            logger.error("%s: %s gives up its session: %s", self.options.group, self.options.member_id, why)
            self.statistics.given_up += 1
            self.statistics.stuck = why
            part.forfeit()

    def _oldest(self) -> tuple[float, int] | None:
        """Return the hold at work for the longest; None before we join: an older hold has cost its own session."""
        return self.holdings.oldest() if self.member.me.session else None

    async def _has_left(self, membership: Membership, now: float) -> bool:
        """Release all partitions; return whether that is done, or has taken too long."""
        if self.options.is_static and not self._departure.has_begun:
            self.holdings.withdraw(list(self.member.serving))
        await self._departure.ask(membership, now)
        is_idle = self.holdings.all_quiet if self.options.is_static else membership.is_asked and self._has_nothing()
        if not is_idle and not self._departure.is_late(now):
            return False
        self.holdings.withdraw(list(self.member.serving))  # before others may take the rest
        await self._departure.go(membership, width=self._width, is_quiet=self.holdings.is_quiet)
        return True

    def _has_nothing(self) -> bool:
        me = self.member.me
        mine = any(
            (owned.ownership.owner, owned.ownership.session) == (me.id, me.session) for owned in self.view.own.values()
        )
        return not mine and self.member.is_idle and not self.view.wanted(me.id)

    async def _commit(self, commit: Commit) -> None:
        outcome = await self._committed(commit)
        revision = outcome.revision if isinstance(outcome, Committed) else None
        if revision is not None:
            self.statistics.moved(commit.moves, self.view, self._clock.elapsed())
        self._hear(CommitAnswered(batch=commit.batch, revision=revision, is_refused=isinstance(outcome, Refused)))

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
        except InvalidInput as error:  # too large for this store: halves of the commit may fit
            self._say_once(error)
            return Refused(revision=0)
        except ApportionError as error:
            return Unknown(reason=error.problem)

    def _aside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._asides.add(task)
        task.add_done_callback(self._end_aside)

    def _end_aside(self, task: "asyncio.Task[None]") -> None:
        """Take the end of a task: an error of the task ends the session."""
        self._asides.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._hear(error)

    def _quiet(self, partitions: frozenset[int]) -> None:
        self._tell(Quiet(partitions=partitions))

    def _tell(self, news: Quiet | None) -> None:
        """Put news into the inbox, from any thread."""
        with suppress(RuntimeError):  # the loop has ended with the interpreter
            self._loop.call_soon_threadsafe(self._hear, news)

    def _hear(self, news: News) -> None:
        self._inbox.append(news)
        self._woken.set()

    def _turn(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.note_turn)

    def note_turn(self) -> None:
        """Wake all callers that wait in `turn`."""
        self._turned.set()
        self._turned = asyncio.Event()


async def _ended(tasks: "list[asyncio.Future[None]]") -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
