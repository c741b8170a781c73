"""Membership: how a member joins and leaves a group, by commits about its own record.

Promises: at most one session per id is live. A newcomer waits until the lease of its predecessor has ended, for
`lease_ttl` plus a second at most; with `replace`, for `drain_timeout` more. It gets `DuplicateMember` if a scan after
that wait still shows the predecessor. It waits without limit for an earlier session of its own process: that session
will end, because no process renews it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from uuid import uuid4

from apportion.errors import BadSnapshot, DuplicateMember, LeaseLost, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.groups.crash_loops import ended
from apportion.groups.handover import Act, Known, OwnSession, request
from apportion.groups.opening import Options
from apportion.groups.view.records import KEPT_SESSIONS, LEAVES, REPLACED, MemberRecord, decoded, encoded, led_by
from apportion.groups.view.view import View
from apportion.stores.api import Committed, Compare, CoordinationStore, Item, Outcome, Put, Refused, Unchanged, Unknown


class Predecessors:
    """The earlier sessions under a member's id that a new life of the member may meet.

    `leases` are the leases on which this member may have written its record. `awaited` is a session that did not end,
    although the member waited for it during a whole life.
    """

    def __init__(self) -> None:
        self.leases: deque[int] = deque(maxlen=KEPT_SESSIONS)
        self.awaited: int | None = None

    def note(self, lease: int) -> None:
        """Note that the record of the member is about to be written on a lease."""
        if lease not in self.leases:
            self.leases.append(lease)


class Membership:
    """The record of one life of a member; its nonce tells it from other lives."""

    def __init__(
        self,
        store: CoordinationStore,
        view: View,
        options: Options,
        *,
        agreed: int,
        lease: int,
        former: tuple[int, ...] = (),
        predecessors: Predecessors | None = None,
    ) -> None:
        self._predecessors = Predecessors() if predecessors is None else predecessors
        self._store, self._view, self._options, self._agreed = store, view, options, agreed
        self._former = former
        self._keys, self._nonce, self._lease = view.keys, uuid4().hex, lease
        self._is_certain = True
        self._left: int | None = None
        self._seen = 0

    @property
    def session(self) -> int | None:
        """Our session, None while our record is not there."""
        there = self._view.members.get(self._options.member_id)
        return None if there is None or there.record.nonce != self._nonce else there.session

    @property
    def is_damaged(self) -> bool:
        """Whether our record has a damaged value but is still on our lease. The lease keeps our session."""
        there = self._view.members.get(self._options.member_id)
        is_ours = there is not None and there.lease == self._lease
        return is_ours and self._keys.member(self._options.member_id) in self._view.damaged

    @property
    def is_replaced(self) -> bool:
        """Whether our successor under the same id waits for us to leave."""
        drain = self._view.drains.get(self._options.member_id)
        return self.session is not None and drain is not None and drain.value == REPLACED

    async def try_to_join(self, *, is_patient: bool) -> None:
        """Write our record if no member of our id is there, or over our damaged record; the view shows the outcome.

        `DuplicateMember` if another process still has our id, although our previous life has waited for the end of that
        process. The view is newer than that wait, and still shows that process. While `is_patient`, the call does not
        touch a damaged record on the lease of another process. That process may be alive, and would then write the
        record anew.
        """
        member_id, options = self._options.member_id, self._options
        there, is_damaged = self._view.members.get(member_id), self._keys.member(member_id) in self._view.damaged
        if there is None or (is_damaged and (there.lease in (None, self._lease) or not is_patient)):
            record = encoded(replace(options.member, nonce=self._nonce, former=self._former))
            member, static = self._keys.member(member_id), self._keys.static(member_id)
            when = [self._view.as_seen(member), Unchanged(key=self._keys.record, revision=self._agreed)]
            puts = [Put(key=member, value=record, lease=self._lease)]
            if options.is_static:
                when.append(self._view.as_seen(static))
                puts.append(Put(key=static, value=record))
            self._is_certain, was_certain = False, self._is_certain
            self._predecessors.note(self._lease)
            outcome = await self._store.commit(when=when, puts=puts)
            self._is_certain = was_certain and not isinstance(outcome, Unknown)
            self._note(outcome)
        elif there.session == self._predecessors.awaited and there.lease not in self._predecessors.leases:
            raise DuplicateMember(member_id, there.session)
        elif not is_patient:
            self._predecessors.awaited = there.session
        elif options.replaces:
            await ask_to_leave(self._store, self._view, member_id, REPLACED)

    @property
    def is_asked(self) -> bool:
        """Whether any process, ourselves included, asked us to leave."""
        return self._options.member_id in self._view.drains

    @property
    def owned(self) -> tuple[int, ...]:
        """The partitions that this session owns. O(partitions)."""
        mine = self._options.member_id, self.session
        own = self._view.own.items()
        return tuple(each for each, owned in own if (owned.ownership.owner, owned.ownership.session) == mine)

    async def ask(self) -> Outcome | None:
        """Ask for a target without us; None if we have asked before, or our record is not in the store."""
        return await ask_to_leave(self._store, self._view, self._options.member_id, LEAVES)

    async def free(self, partitions: Sequence[int], *, width: int) -> None:
        """Free some of our partitions, `width` per commit; a refused commit is sent again in halves."""
        session = self.session
        for start in range(0, len(partitions) if session else 0, width):
            batch = partitions[start : start + width]
            when, puts = self._freed(batch)
            outcome = await self._store.commit(when=when, puts=puts)
            if isinstance(outcome, Refused) and len(batch) > 1:
                await self.free(batch, width=(len(batch) + 1) // 2)

    def _freed(self, partitions: Iterable[int]) -> tuple[list[Compare], list[Put]]:
        view, when, puts = self._view, dict[str, Compare](), list[Put]()
        me = OwnSession(id=self._options.member_id, session=self.session or 0)
        for partition in partitions:
            owned = view.owned(partition)
            known = Known(
                record=owned.ownership,
                revision=owned.revision,
                session=me.session,
                is_wanted=False,
                ended=ended(view, partition),
            )
            compares, put = request(Act.GIVE, partition, known, me, self._keys)
            when.update((each.key, each) for each in compares)
            puts.append(put)
        return list(when.values()), puts

    async def leave(self, *, frees: Iterable[int] = ()) -> None:
        """Delete our record and free some partitions, in one commit; a static member also notes that it left."""
        session, keys, member_id = self.session, self._keys, self._options.member_id
        if session is None:
            return
        self._left = session
        freed, puts = self._freed(frees)
        member = Unchanged(key=keys.member(member_id), revision=session)
        when: list[Compare] = [member, *(each for each in freed if each != member)]
        deletes = [keys.member(member_id)]
        if (drain := self._view.drains.get(member_id)) is not None:
            when.append(Unchanged(key=drain.key, revision=drain.revision))
            deletes.append(drain.key)
        if self._options.is_static and member_id in self._view.statics:
            record, revision = self._view.statics[member_id]
            when.append(Unchanged(key=keys.static(member_id), revision=revision))
            puts.append(Put(key=keys.static(member_id), value=encoded(replace(record, left_session=session))))
        self._note(await self._store.commit(when=when, puts=puts, deletes=deletes))

    async def is_cleared(self) -> bool:
        """Delete our records on the lease, which lives on. Return whether no record is there, and none can come later.

        A member record may still come if nobody knows whether its commit was carried out. All other commits compare our
        member record, so none of them can happen once that record is gone. A scan at an older revision than one we know
        is no proof.
        """
        keys, member_id = self._keys, self._options.member_id
        if not self._is_certain:
            return False
        try:
            return (
                await self._is_gone(keys.member(member_id), self._is_our_record)
                and await self._is_gone(
                    keys.controller, lambda item: item.value == led_by(member_id, self._left).encode()
                )
                and await self._is_gone(keys.drain(member_id), lambda item: item.lease == self._lease)
            )
        except (LeaseLost, StoreDenied, StoreUnavailable, StoreWentBack):
            return False

    async def _is_gone(self, key: str, is_ours: Callable[[Item], bool]) -> bool:
        """Delete a key if its record is ours; return whether no record of ours is left there."""
        scan = await self._store.scan(key)
        if scan.revision < max(self._seen, self._view.revision):
            return False
        found = [item for item in scan.items if item.key == key and is_ours(item)]
        if not found:
            self._seen = max(self._seen, scan.revision)
            return True
        when = [Unchanged(key=key, revision=item.revision) for item in found]
        return self._note(await self._store.commit(when=when, deletes=[key]))

    def _note(self, outcome: Outcome) -> bool:
        """Note the revision from which scans show our commit; return whether the commit happened."""
        if isinstance(outcome, Committed):
            self._seen = max(self._seen, outcome.revision)
        return isinstance(outcome, Committed)

    def _is_our_record(self, item: Item) -> bool:
        """Whether this is our member record, and not that of another life of our id; if so, note that we have left.

        A damaged record on our lease is ours too: it would keep our session for as long as the lease is renewed.
        """
        try:
            is_ours, session = decoded(MemberRecord, item.value).nonce == self._nonce, item.revision
        except BadSnapshot:
            there = self._view.members.get(self._options.member_id)
            is_ours, session = item.lease == self._lease, item.revision if there is None else there.session
        self._left = session if is_ours else self._left
        return is_ours


async def ask_to_leave(store: CoordinationStore, view: View, member_id: str, how: bytes) -> Outcome | None:
    """Ask a member for its partitions; the request ends with its session. None if it was asked, or is absent."""
    asked = request_to_leave(view, member_id, how)
    return None if asked is None else await store.commit(when=asked[0], puts=[asked[1]])


def request_to_leave(view: View, member_id: str, how: bytes) -> tuple[list[Compare], Put] | None:
    """Return the compares and the put that ask a member for its partitions; None if it was asked, or is absent."""
    there, key = view.members.get(member_id), view.keys.drain(member_id)
    if there is None or member_id in view.drains:
        return None
    when = [view.as_seen(key), view.as_seen(view.keys.member(member_id))]
    return when, Put(key=key, value=how, lease=there.lease)
