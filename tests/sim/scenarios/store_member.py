"""A member, in the smallest honest form: it holds a lease, and owns resources by compare-and-set.

`member/<id>` ends with its lease, and the revision that wrote it is the number of its session. `own/<resource>` names
the owner, its session, and the epoch since then. It is never deleted and its epoch never goes back.
Ownership moves by one commit that compares everything it depends on. A *claim* takes a free resource, and a
*takeover* takes one from a session without a record. A *transfer* goes from the owner to a live session. A *rebump*
is by an owner that cannot be sure about its last action.
The store's scenario plays this member. It is not the group protocol for users.
"""

import asyncio
import json
import random
from collections.abc import Sequence
from uuid import uuid4
from zlib import crc32

from apportion.errors import ApportionError, Compacted, LeaseLost, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.groups.view.records import OwnershipRecord
from apportion.model.epoch import FencingToken
from apportion.sim.invariants.ownership import ownership
from apportion.sim.world.sink import Sink
from apportion.sim.world.world import World
from apportion.stores import (
    Absent,
    Committed,
    Compare,
    CoordinationStore,
    Put,
    Refused,
    Scan,
    Unchanged,
    Unknown,
)
from tests.sim.scenarios.store_view import StoreView

TTL_SECONDS = 2.0
_MARGIN_RATIO = 0.1
_RENEWALS_PER_TTL = 4
_TOGGLE_RATIO = 0.1
_PATIENCE_TTLS = 3
_OUTAGES = (StoreDenied, StoreUnavailable)


class SessionOver(Exception):
    """This session cannot go on; the next one may."""


def wanted(resource: str, members: Sequence[str]) -> str:
    """Return the member that should own a resource: the one that ranks highest for it. So a change moves little."""
    return max(members, key=lambda member: (crc32(f"{resource}/{member}".encode()), member))


class StoreMember:
    """One process of the scenario. `run` goes from session to session for ever."""

    def __init__(self, name: str, world: World, sink: Sink, resources: Sequence[str]) -> None:
        self.name = name
        self._world = world
        self._store = world.store(name)
        self._sink = sink
        self._resources = resources

    async def run(self) -> None:
        """Live."""
        while True:
            session = StoreSession(self.name, self._world, self._store, self._sink)
            try:
                await session.run(self._resources)
            except (SessionOver, *_OUTAGES, StoreWentBack, LeaseLost, Compacted) as error:
                self._world.trace.cover(f"session ends: {type(error).__name__}")
                await asyncio.sleep(random.uniform(0.1, 0.5))


class StoreSession:
    """One session: a lease, a view of the store that follows it, and the actions on that view."""

    def __init__(self, name: str, world: World, store: CoordinationStore, sink: Sink) -> None:
        self.name = name
        self._store, self._clock, self._sink, self._cover = store, world.clock(name), sink, world.trace.cover
        self._view = StoreView()
        self._unsure: set[str] = set()
        self._drained: set[tuple[str, int]] = set()
        self._over: ApportionError | SessionOver | None = None
        self._deadline = 0.0
        self._number = 0
        self._incarnation = 0
        self._lease = 0

    async def run(self, resources: Sequence[str]) -> None:
        """Join, own and serve until the session is over."""
        scan = await self._store.scan("")
        self._incarnation = scan.incarnation
        self._take(scan, "")
        sent = self._clock.elapsed()
        self._lease = (await self._store.grant(ttl_seconds=TTL_SECONDS)).id
        self._prolong(sent)
        background = [asyncio.create_task(self._renew()), asyncio.create_task(self._follow(scan.revision))]
        try:
            await self._join()
            while True:
                for resource in resources:
                    await self._act(resource)
                if random.random() < _TOGGLE_RATIO:
                    await self._toggle()
                await asyncio.sleep(random.uniform(0.05, 0.3))
        finally:
            for task in background:
                task.cancel()
            await self._leave()

    async def _join(self) -> None:
        """Write `member/<id>`; its revision is the session's number. Wait for an earlier session to end.

        A member that waits for that end also watches. Where reapers end leases, a process that watches only for a
        moment ends none.
        """
        since = self._clock.elapsed()
        while not await self._has_joined():
            if self._clock.elapsed() > since + _PATIENCE_TTLS * TTL_SECONDS:
                raise SessionOver("an earlier session is still there, or nothing shows that this one began")
            await asyncio.sleep(random.uniform(0.1, 0.5))
            self._check()

    async def _has_joined(self) -> bool:
        key, flag, value = f"member/{self.name}", f"flag/{self.name}", _value(None)
        outcome = await self._store.commit(
            when=[Absent(key=key), Absent(key=flag)],
            puts=[Put(key=key, value=value, lease=self._lease), Put(key=flag, value=value, lease=self._lease)],
        )
        if isinstance(outcome, Committed):
            self._number = outcome.revision
        elif isinstance(outcome, Unknown):
            found = [item for item in (await self._store.scan(key)).items if item.value == value]
            self._number = found[0].revision if found else 0
            if not found:
                raise SessionOver("nothing shows that this session began, and it may begin yet")
        return self._number > 0

    async def _toggle(self) -> None:
        """Raise a flag that ends with the lease, or take it down and count that. No other member asks for either."""
        flag, tally = f"flag/{self.name}", f"tally/{self.name}"
        is_up = self._view.value(flag) is not None
        try:
            if is_up:
                when = [self._view.as_seen(flag), self._view.as_seen(tally)]
                await self._store.commit(when=when, puts=[Put(key=tally, value=_value(None))], deletes=[flag])
            else:
                put = Put(key=flag, value=_value(None), lease=self._lease)
                await self._store.commit(when=[Absent(key=flag)], puts=[put])
        except _OUTAGES:
            return

    async def _leave(self) -> None:
        try:
            if random.random() < 0.5:
                await self._store.revoke(self._lease)
        except (*_OUTAGES, StoreWentBack):
            return

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(TTL_SECONDS / _RENEWALS_PER_TTL)
            sent = self._clock.elapsed()
            try:
                alive = await self._store.renew([self._lease])
            except _OUTAGES:
                continue
            except StoreWentBack as error:
                self._over = error
                return
            if self._lease not in alive:
                self._over = SessionOver("the lease has ended")
                return
            self._prolong(sent)

    def _prolong(self, sent: float) -> None:
        self._deadline = sent + TTL_SECONDS * (1 - _MARGIN_RATIO)

    async def _follow(self, after: int) -> None:
        while True:
            try:
                async for change in self._store.watch("", after=after):
                    after = change.revision
                    self._view.apply(change)
            except Compacted:
                after = await self._read_all(after)
            except (StoreDenied, StoreWentBack) as error:
                self._over = error
                return

    async def _read_all(self, after: int) -> int:
        try:
            scan = await self._store.scan("")
        except _OUTAGES:
            await asyncio.sleep(0.2)
            return after
        self._take(scan, "")
        return scan.revision

    def _check(self) -> None:
        """Raise when this session must stop. It is called before every action that could harm others."""
        if self._over is not None:
            raise self._over
        if self._clock.elapsed() >= self._deadline:
            raise SessionOver("not renewed in time")

    def _take(self, scan: Scan, prefix: str) -> None:
        if scan.incarnation != self._incarnation:
            raise SessionOver("the store has begun another life")
        self._view.take(scan, prefix)

    def _session_of(self, member: str) -> int:
        return self._view.revision(f"member/{member}")

    async def _act(self, resource: str) -> None:
        """Do the next action for one resource. An action that the store could not do is tried again."""
        self._check()
        try:
            await self._decide(resource)
        except _OUTAGES:
            await asyncio.sleep(random.uniform(0.05, 0.2))

    async def _decide(self, resource: str) -> None:
        key = f"own/{resource}"
        if resource in self._unsure:
            self._take(await self._store.scan(key), key)
            self._unsure.discard(resource)
        members = [name.removeprefix("member/") for name in self._view.keys("member/")]
        target = wanted(resource, members) if members else self.name
        value, unchanged = self._view.value(key), self._view.as_seen(key)
        own = OwnershipRecord(owner=None, session=0, epoch=0) if value is None else ownership(value)
        if (own.owner, own.session) == (self.name, self._number):
            await self._own(resource, own, unchanged, target)
        elif target == self.name:
            await self._get(resource, own, unchanged)

    async def _own(self, resource: str, own: OwnershipRecord, unchanged: Compare, target: str) -> None:
        """Serve our own resource, or give it to the member that should own it."""
        drained = (resource, own.epoch) in self._drained
        if target != self.name and self._session_of(target):
            self._drained.add((resource, own.epoch))  # from now on never served again under this epoch
            session = self._session_of(target)
            new = OwnershipRecord(owner=target, session=session, epoch=own.epoch + 1)
            receiver = Unchanged(key=f"member/{target}", revision=session)
            await self._move("transfer", resource, new, when=[unchanged, receiver])
        elif drained:
            new = OwnershipRecord(owner=self.name, session=self._number, epoch=own.epoch + 1)
            await self._move("rebump", resource, new, when=[unchanged, self._mine()])
        else:
            holder = f"{self.name}.{self._number}"
            token = FencingToken(resource=resource, holder=holder, incarnation=self._incarnation, epoch=own.epoch)
            await self._serve(token)

    async def _get(self, resource: str, own: OwnershipRecord, unchanged: Compare) -> None:
        """Claim a free resource, or take over the resource of a session that is gone."""
        new = OwnershipRecord(owner=self.name, session=self._number, epoch=own.epoch + 1)
        if own.owner is None or own.owner == self.name:
            await self._move("claim" if own.owner is None else "rebump", resource, new, when=[unchanged, self._mine()])
            return
        session = self._session_of(own.owner)
        if session == own.session:
            return  # it lives, and will transfer
        key = f"member/{own.owner}"
        gone: Compare = Unchanged(key=key, revision=session) if session else Absent(key=key)
        await self._move("takeover", resource, new, when=[unchanged, gone, self._mine()])

    def _mine(self) -> Compare:
        return Unchanged(key=f"member/{self.name}", revision=self._number)

    async def _move(self, how: str, resource: str, new: OwnershipRecord, when: list[Compare]) -> None:
        key, value = f"own/{resource}", _value(new)
        distinct = list({compare.key: compare for compare in when}.values())
        outcome = await self._store.commit(when=distinct, puts=[Put(key=key, value=value)])
        if isinstance(outcome, Committed):
            self._view.put(key, value, outcome.revision)
            self._cover(how)
        elif isinstance(outcome, Unknown | Refused):
            self._unsure.add(resource)  # read back before anything else

    async def _serve(self, token: FencingToken) -> None:
        accepted = await self._sink.write(token)
        self._cover("served" if accepted else "fenced off" if accepted is False else "served, perhaps")
        if accepted is False:
            self._unsure.add(token.resource)
            self._drained.add((token.resource, token.epoch))


def _value(own: OwnershipRecord | None) -> bytes:
    """Return a unique value, so that it is recognised when it is read back."""
    said: dict[str, object] = {"nonce": uuid4().hex[:12]}
    if own is not None:
        said |= {"owner": own.owner, "session": own.session, "epoch": own.epoch}
    return json.dumps(said).encode()
