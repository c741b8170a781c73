"""Follower: keeps the newest version of a published table in memory and swaps it as a whole.

It begins with one scan, and then watches the store. When a version cannot be made from its delta, the follower reads
the table again from its snapshot. It keeps the old version until that works. Besides the watch, it reads the head every
few seconds. This bounds the age of the version in use, and detects a silent watch.

Promises: readers never fail because a store or a publisher is unavailable, or because of damage. Versions never go
back: a version is a number within one life of the store, and a later life has greater versions. docs/groups/tables.md
describes how followers continue after the store was restored or went back.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress

from apportion.errors import ApportionError, BadSnapshot, InvalidInput, StoreClosed, StoreUnavailable
from apportion.placement.hashers import Hasher
from apportion.runtime.clock import Clock
from apportion.runtime.endings import or_undo
from apportion.runtime.simulated import clock_here
from apportion.stores.api import CoordinationStore
from apportion.tables.copy import TableCopy
from apportion.tables.layout import TableKeys, Version
from apportion.tables.routes import Routes

CONFIRM_SECONDS = 5.0
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0


class Follower:
    """Follows one name, on the event loop of `start`. Any thread may read its routes."""

    def __init__(
        self, store: CoordinationStore, name: str, *, hasher: str | Hasher | None = None, clock: Clock | None = None
    ) -> None:
        self._store = store
        self._keys = TableKeys(name)
        self._clock = clock or clock_here()
        self._copy = TableCopy(self._keys, hasher, now=self._clock.elapsed())
        self._after = (0, 0)  # the life of the store, and the revision in it where the watch begins
        self._confirming = asyncio.Lock()
        self._watching: asyncio.Future[None] | None = None
        self._work: asyncio.Task[None] | None = None

    async def start(self, *, within_seconds: float = 10.0) -> None:
        """Return when a first version was read; `StoreUnavailable` when none was published in time.

        If the table is damaged, the call waits for the next publish, which repairs the table. If none comes within
        `within_seconds`, it raises `BadSnapshot` with the reason. Any other `InvalidInput` is raised at once, with the
        reason why the table cannot be followed.
        """
        try:
            await self._read()
        except BadSnapshot as error:
            self._copy.trouble = error
        self._work = asyncio.create_task(self._follow_and_confirm())
        async with or_undo(self.close):
            await self._wait_for(None, within_seconds)

    async def close(self) -> None:
        """Stop following. The last routes still answer. The store stays open."""
        if self._work is not None:
            self._work.cancel()
            with suppress(asyncio.CancelledError):
                await self._work

    @property
    def routes(self) -> Routes:
        """The routes in use now; `StoreUnavailable` before the first version."""
        if self._copy.routes is None:
            raise StoreUnavailable(f"table {self._keys.name}", "no version was read yet", "Await start() first.")
        return self._copy.routes

    @property
    def heard(self) -> Version:
        """The newest version that the follower knows of: that of `routes`, unless a newer one could not be read."""
        return self.routes.version if self._copy.heard is None else self._copy.heard

    @property
    def drift_versions(self) -> int:
        """The number of newer versions that the follower knows of; 1 if the newest is of a later life of the store."""
        ours, newest = self.routes.version, self.heard
        return newest.number - ours.number if newest.incarnation == ours.incarnation else int(newest > ours)

    @property
    def age_seconds(self) -> float:
        """The seconds since the store last confirmed that the version in use is the newest."""
        return self._clock.elapsed() - self._copy.confirmed_at

    @property
    def trouble(self) -> BaseException | None:
        """The reason why the version in use may not be the newest, None while all is well."""
        if self._work is not None and self._work.done() and not self._work.cancelled():
            return self._work.exception() or self._copy.trouble
        return self._copy.trouble

    async def refresh(self, version: Version, *, within_seconds: float = 5.0) -> Routes:
        """Return routes newer than `version`, after a node that `version` named refused a key (`StaleRoute`).

        Raises `trouble` if it prevents this, or `StoreUnavailable` when no newer version was published within
        `within_seconds`.
        """
        await self._wait_for(version, within_seconds)
        return self.routes

    async def _wait_for(self, version: Version | None, within_seconds: float) -> None:
        check_seconds(within_seconds)
        try:
            async with asyncio.timeout(within_seconds):
                await self._until_after(version)
        except TimeoutError as error:
            if self._copy.trouble is not None:
                raise self._copy.trouble from error
            what = "nothing" if version is None else f"nothing newer than version {version}"
            hint = "Check the publisher and the name of the table, or wait longer."
            reason = f"{what} was published within {within_seconds:g} s"
            raise StoreUnavailable(f"table {self._keys.name}", reason, hint) from error

    async def _until_after(self, version: Version | None) -> None:
        """Read from the store, with pauses, until a newer version is in use. A swap ends a pause early."""
        pause = _SHORTEST_PAUSE_SECONDS
        while not self._copy.is_after(version):
            swapped = self._copy.swapped
            async with self._confirming:
                if not self._copy.is_after(version):  # another call may have read a newer version meanwhile
                    await self._confirm()
            if self._copy.is_after(version):
                return
            if isinstance(self._copy.trouble, StoreClosed):
                raise self._copy.trouble
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await swapped.wait()
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _follow_and_confirm(self) -> None:
        await asyncio.gather(self._follow(), self._confirm_often())

    async def _follow(self) -> None:
        pause = _SHORTEST_PAUSE_SECONDS
        while True:
            began = self._copy.seen
            self._watching = asyncio.ensure_future(self._watch(*self._after))
            try:
                await asyncio.wait([self._watching])
            finally:
                self._watching.cancel()
            if not self._watching.cancelled():
                self._watching.result()  # a defect of this library ends this loop, and becomes `trouble`
            if isinstance(self._copy.trouble, StoreClosed):
                return
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS) if began == self._copy.seen else _SHORTEST_PAUSE_SECONDS
            await asyncio.sleep(pause)
            with self._noting():
                await self._read()

    async def _watch(self, incarnation: int, after: int) -> None:
        with self._noting():
            async with aclosing(self._store.watch(self._keys.prefix, after=after)) as changes:
                async for change in changes:
                    self._copy.apply(change, incarnation)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Keep an `ApportionError` of the store or of a snapshot as `trouble`. The version in use stays."""
        try:
            yield
        except ApportionError as error:
            self._copy.trouble = error

    async def _confirm_often(self) -> None:
        while True:
            await asyncio.sleep(CONFIRM_SECONDS)
            async with self._confirming:
                await self._confirm()

    async def _confirm(self) -> None:
        """Read the number of the newest version, and read that version unless it is in use."""
        with self._noting():
            sent = self._clock.elapsed()
            scan = await self._store.scan(self._keys.head)
            if self._watching is not None and scan.incarnation != self._after[0]:
                # The watch began in another life of the store, or begins now and may show either life.
                self._watching.cancel()
            newest = self._copy.hear(scan)
            if newest is not None and self._copy.is_before(newest):
                sent = self._clock.elapsed()
                scan = await self._store.scan(self._keys.prefix)
                if (scan.incarnation, scan.revision) >= self._copy.seen:
                    newest = self._copy.take(scan)
            self._copy.confirm(newest, sent)

    async def _read(self) -> None:
        """Read all keys of the name; the next watch begins at that revision."""
        sent = self._clock.elapsed()
        scan = await self._store.scan(self._keys.prefix)
        self._after = (scan.incarnation, scan.revision)
        self._copy.confirm(self._copy.take(scan), sent)


@asynccontextmanager
async def following(
    store: CoordinationStore,
    name: str,
    *,
    within_seconds: float = 10.0,
    hasher: str | Hasher | None = None,
) -> AsyncIterator[Follower]:
    """Follow a name of an open store until the end of the block. Raises the errors of `Follower.start`."""
    follower = Follower(store, name, hasher=hasher)
    await follower.start(within_seconds=within_seconds)
    try:
        yield follower
    finally:
        await follower.close()


def check_seconds(within_seconds: float, name: str = "within_seconds") -> None:
    """Raise `InvalidInput` for a value that is no number of seconds to wait."""
    is_number = isinstance(within_seconds, (int, float)) and not isinstance(within_seconds, bool)
    if not is_number or not within_seconds >= 0:
        hint = f"Write for example {name}=10."
        raise InvalidInput(name, within_seconds, "a number of seconds, not negative", hint)
