"""Life: one session of one member. It waits, asks the machines that decide, and carries out their actions.

Promises: the life passes the store's news and answers to the machines, and carries out their actions in order. Each
wait is bounded by time, or ends with the session. A life ends after all tasks that it began have ended, and it owns
nothing then.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from apportion.errors import StoreDenied, StoreUnavailable
from apportion.groups.controller.publish_owners import publish_owners
from apportion.groups.life.commits import Commits
from apportion.groups.life.departure import AGAIN_SECONDS
from apportion.groups.life.inbox import News
from apportion.groups.life.parts import MemberParts
from apportion.groups.member import Admitted, Ended, MemberEvent, Quiet, Seen, Tick
from apportion.groups.membership import Membership
from apportion.groups.session import GroupLease
from apportion.groups.unanswered_commits import Commit, CommitAnswered
from apportion.runtime.endings import to_its_end
from apportion.runtime.events import GaveUp, Joined
from apportion.stores.api import Scan, StoreChange

_AWAY = (StoreUnavailable, StoreDenied)
_LOOKS_PER_TTL = 20


class Life:
    """One life of a member; `agreed` is the revision of the group's record."""

    def __init__(self, parts: MemberParts, lease: GroupLease, *, agreed: int) -> None:
        self._lease, self._agreed = lease, agreed
        self._options, self._store, self._clock = parts.options, parts.store, parts.clock
        self._view, self._member, self._controller = parts.view, parts.member, parts.controller
        self._inbox, self._holdings, self._events = parts.inbox, parts.holdings, parts.events
        self._effects, self._deadlines, self._departure = parts.effects, parts.deadlines, parts.departure
        self._feed, self._former, self._width = parts.feed, parts.former, parts.width
        self._predecessors = parts.predecessors
        self._membership: Membership | None = None
        self.commits: Commits = Commits(parts, self._step)

    async def run(self, scan: Scan) -> None:
        """Live, from the last scan on, until the first part of this life ends; raise the error of that part, if any."""
        self._step(Seen(touched=self._view.load(scan, self._clock.elapsed())))
        publishing = publish_owners(self._store, self._view, self._controller, self._inbox.turn, self._events.tell)
        running = (self._lease.keep(), self._feed.follow(scan.revision), self._serve(), publishing)
        tasks = [asyncio.ensure_future(each) for each in running]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await to_its_end(self._end(tasks))
        for task in done:
            task.result()

    async def _end(self, tasks: "Iterable[asyncio.Future[None]]") -> None:
        """End this life: it leaves no partition held, no task, and no record on a lease that lives on."""
        lease = self._lease
        lease.ended.set()  # so that no renewal confirms a life that is over
        self._holdings.deadline = float("-inf")
        self._holdings.cancel()
        await self.commits.cancel(tasks)
        membership, joined = self._membership, self._member.session
        self._former.extend(filter(None, (joined,)))
        self._step(Ended())
        self._controller.answered(False, self._clock.elapsed())  # no answer to the controller's write will come
        is_rewritten = joined and membership is not None and membership.session not in (None, joined)
        if lease.is_forfeit or is_rewritten or (membership is not None and membership.is_damaged):
            await self._outlived()
        # If our record was written anew, the lease of the new record may live on, and the record with it. So the record
        # is deleted, even if we are alone on our lease.
        may_stay = is_rewritten or not lease.is_alone
        is_clear = may_stay and (membership is None or await membership.is_cleared())
        await lease.end(is_clear=is_clear)

    async def _outlived(self) -> None:
        """Wait until our work on our partitions has ended, but no longer than the lease would have lasted."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._lease.ttl_seconds):
                while not self._holdings.all_quiet:
                    await self._inbox.next()

    async def _serve(self) -> None:
        """Carry out the machines' actions until the store has ended the session, or we have left."""
        lease, options, departure = self._lease, self._options, self._departure
        self._membership = membership = Membership(
            self._store,
            self._view,
            options,
            agreed=self._agreed,
            lease=lease.lease,
            former=tuple(self._former),
            predecessors=self._predecessors,
        )
        patience = self._clock.elapsed() + lease.ttl_seconds + 1
        patience += options.drain_seconds if options.replaces else 0
        while not lease.ended.is_set():
            now = self._clock.elapsed()
            due = None if membership.session is not None else now + lease.ttl_seconds / _LOOKS_PER_TTL
            joined, session = self._member.session, membership.session
            if (joined and session != joined) or (not joined and session is None and departure.is_wanted):
                return
            departure.is_wanted |= membership.is_replaced
            try:
                if await self._is_done(membership, now, patience):
                    return
            except _AWAY as error:
                if departure.is_late(now) or (departure.is_wanted and self._has_nothing()):
                    return  # the store ends our lease by itself
                self._effects.asks_again(error)
                due = now + AGAIN_SECONDS
            if self._member.session and (write := self._controller.look(now)) is not None:
                self.commits.begin(self.commits.write(write))
            self._press(now)
            await self._wait(due)

    async def _is_done(self, membership: Membership, now: float, patience: float) -> bool:
        """Join or leave, as needed; return whether this life is done."""
        if membership.session is None and self._holdings.all_quiet:  # no work of an earlier life goes on
            await membership.try_to_join(is_patient=now < patience)
            if now >= patience:
                return True  # the group itself has changed, or a predecessor is there: agree and look anew
        if membership.session is not None and not self._member.session:
            self._events.tell(Joined(session=membership.session))
            self._step(Admitted(session=membership.session))
        return membership.session is not None and self._departure.is_wanted and await self._has_left(membership, now)

    def _has_nothing(self) -> bool:
        """Whether our deadline is over, and no work of ours goes on. Then there is nothing to hand over."""
        return not self._holdings.is_current and self._holdings.all_quiet

    async def _wait(self, due: float | None) -> None:
        """Wait until there is news or an action is due, then take all news from the inbox."""
        dues = [due, self._member.wakes_at(), self._departure.wakes_at(), self._deadlines.wakes_at(self._oldest())]
        dues += [self._controller.wakes_at()] if self._member.session else []
        dues += [self._holdings.deadline] if self._holdings.is_current else []
        first = min(each for each in dues if each is not None)
        news = await self._inbox.taken(None if first == float("inf") else max(0.0, first - self._clock.elapsed()))
        for each in news:
            self._take(each)
        ended = (partition for each in news if isinstance(each, Quiet) for partition in each.partitions)
        quiet = frozenset(filter(self._holdings.is_quiet, ended))  # the partition may have been granted again since
        self._deadlines.ended(quiet)
        self._step(Quiet(partitions=quiet) if quiet else Tick())
        self._inbox.note_turn()

    def _take(self, news: News) -> None:
        """Take one piece of news; an error that nobody awaited ends the session."""
        if isinstance(news, StoreChange):
            self._step(Seen(touched=self._view.apply(news, self._clock.elapsed())))
        elif isinstance(news, Scan):
            self._step(Seen(touched=self._view.load(news, self._clock.elapsed())))
        elif isinstance(news, CommitAnswered):
            self._step(news)
        elif isinstance(news, BaseException):
            raise news

    def _step(self, event: MemberEvent) -> None:
        if isinstance(event, Seen):
            self._effects.found(event.touched.damaged)
        now = self._clock.elapsed()
        actions = self._member.step(event, now)
        for action in actions:
            if isinstance(action, Commit):
                self.commits.begin(self.commits.commit(action))
        self._effects.act(actions, self._member.me, now)

    def _press(self, now: float) -> None:
        """Cancel work that does not end in time; if that does not help, give up the session."""
        if not self._holdings.is_current:
            self._holdings.cancel()
        for partition in self._deadlines.to_cancel(now):
            self._holdings.cancel(partition)
        why = self._deadlines.verdict(self._oldest(), now)
        if why is not None:
            self._events.tell(GaveUp(why=why))
            self._lease.forfeit()

    def _oldest(self) -> tuple[float, int] | None:
        """Return the hold that has worked longest. None before we join, as each hold is then of an earlier session."""
        return self._holdings.oldest() if self._member.session else None

    async def _has_left(self, membership: Membership, now: float) -> bool:
        """Release all partitions; return whether that is done, or has taken too long."""
        is_static, departure = self._options.is_static, self._departure
        if is_static and not departure.has_begun:
            self._holdings.withdraw(list(self._member.serving))
        await departure.ask(membership, now)
        is_idle = self._holdings.all_quiet if is_static else membership.is_asked and self._member.has_nothing
        if not is_idle and not departure.is_late(now):
            return False
        self._holdings.withdraw(list(self._member.serving))  # no work may begin on partitions that others may take
        await departure.go(membership, width=self._width, is_quiet=self._holdings.is_quiet)
        return True
