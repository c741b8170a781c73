"""Follower: keeps the newest version of a published table in memory and swaps it as a whole.

It begins with one scan, then a watch. Each new version is made from the one before by its delta. A delta may not
apply, or may lead to another epoch than announced. Then the follower reads the table again from its snapshot, and
keeps the old version until that works. Beside the watch it reads the head every few seconds. That bounds the age of
the version in use, and detects a silent watch.

Promises: readers take one reference without a lock, and never fail because a store or a publisher is away. Versions
never go back. A version is its number within one life of the store. A store that was restored from a copy shows an
older table, and the follower takes it as a *later* version. Publishers continue from there, so a reader that waited
for the old number would route by a table that nobody maintains. Ownership under the restored records has tokens above
all earlier ones, by the same order. The follower does not believe a store that went back without another incarnation:
it keeps its version until the numbers have grown past it, and `trouble` says so. Damage ends no follower: the version
in use stays, `trouble` gives the reason, and the next publish mends the table.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress

from apportion.errors import ApportionError, BadSnapshot, StoreClosed, StoreUnavailable, StoreWentBack
from apportion.placement.hashers import Hasher
from apportion.runtime.clock import Clock
from apportion.runtime.simulated import clock_here
from apportion.stores.api import CoordinationStore, Scan, StoreChange
from apportion.tables.deltas import Routing
from apportion.tables.layout import TableKeys, Version, VersionLink, decode_head, resolved
from apportion.tables.routes import Routes

CONFIRM_SECONDS = 5.0
_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0


class Follower:
    """One name, followed on the loop that `start` is called on; its routes may be read from any thread."""

    def __init__(
        self, store: CoordinationStore, name: str, *, hasher: str | Hasher | None = None, clock: Clock | None = None
    ) -> None:
        self._store = store
        self._keys = TableKeys(name)
        self._hasher = hasher
        self._clock = clock or clock_here()
        self._routes: Routes | None = None
        self._at: tuple[VersionLink, Routing] | None = None
        self._heard: Version | None = None
        self._confirmed_at = self._clock.elapsed()
        self._trouble: ApportionError | None = None
        # The keys of the name, as of one revision of one life of the store; and the revision where the watch begins.
        self._chunks: dict[str, bytes] = {}
        self._seen = self._after = (0, 0)
        self._swapped = asyncio.Event()
        self._confirming = asyncio.Lock()
        self._watching: asyncio.Future[None] | None = None
        self._work: asyncio.Future[tuple[None, None]] | None = None

    async def start(self, *, within_seconds: float = 10.0) -> None:
        """Return when a first version is there; `StoreUnavailable` when nobody published one within that time.

        A damaged table is awaited as long, for the next publish mends it; then `BadSnapshot` gives the reason. Any
        other `InvalidInput` says at once why the table cannot be followed.
        """
        try:
            await self._read()
        except BadSnapshot as error:
            self._trouble = error
        self._work = asyncio.gather(self._follow(), self._confirm_often())
        async with AsyncExitStack() as otherwise:
            otherwise.push_async_callback(self.close)
            await self._wait_for(None, within_seconds)
            otherwise.pop_all()

    async def close(self) -> None:
        """Stop following. The last routes still answer. The store stays open."""
        if self._work is not None:
            self._work.cancel()
            with suppress(asyncio.CancelledError):
                await self._work

    @property
    def routes(self) -> Routes:
        """The routes in use now; `StoreUnavailable` before the first version."""
        if self._routes is None:
            raise StoreUnavailable(f"table {self._keys.name}", "no version was read yet", "Await start() first.")
        return self._routes

    @property
    def heard(self) -> Version:
        """The newest version that the follower heard of: that of `routes`, unless a newer one could not be read."""
        return self.routes.version if self._heard is None else self._heard

    @property
    def drift_versions(self) -> int:
        """The number of published versions we are behind, as far as heard; at least 1 after a restore of the store."""
        ours, newest = self.routes.version, self.heard
        return newest.number - ours.number if newest.incarnation == ours.incarnation else int(newest > ours)

    @property
    def age_seconds(self) -> float:
        """The seconds since the store last confirmed that the version in use is the newest."""
        return self._clock.elapsed() - self._confirmed_at

    @property
    def trouble(self) -> BaseException | None:
        """The reason why the version in use may not be the newest, None while all is well."""
        if self._work is not None and self._work.done() and not self._work.cancelled():
            return self._work.exception() or self._trouble
        return self._trouble

    async def refresh(self, version: Version, *, within_seconds: float = 5.0) -> Routes:
        """Return routes newer than `version`, by which a key was routed to a node that refused it (`StaleRoute`).

        Raises the trouble that prevents this, or `StoreUnavailable` when no newer version was published within that
        time.
        """
        await self._wait_for(version, within_seconds)
        return self.routes

    async def _wait_for(self, version: Version | None, within_seconds: float) -> None:
        pause = _SHORTEST_PAUSE_SECONDS
        try:
            async with asyncio.timeout(within_seconds):
                while not self._is_after(version):
                    swapped = self._swapped
                    async with self._confirming:
                        if not self._is_after(version):  # by another call at the same time
                            await self._confirm()
                    if self._is_after(version):
                        return
                    if isinstance(self._trouble, StoreClosed):
                        raise self._trouble
                    with suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await swapped.wait()
                    pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        except TimeoutError as error:
            if self._trouble is not None:
                raise self._trouble from error
            what = "nothing" if version is None else f"nothing newer than version {version}"
            hint = "Ask whoever publishes it, look for a slip in the name, or wait longer."
            reason = f"{what} was published within {within_seconds:g} s"
            raise StoreUnavailable(f"table {self._keys.name}", reason, hint) from error

    def _is_after(self, version: Version | None) -> bool:
        return self._routes is not None and (version is None or self._routes.version > version)

    async def _follow(self) -> None:
        pause = _SHORTEST_PAUSE_SECONDS
        while True:
            began = self._seen
            self._watching = asyncio.ensure_future(self._watch(*self._after))
            try:
                await asyncio.wait([self._watching])
            finally:
                self._watching.cancel()
            if not self._watching.cancelled():
                self._watching.result()  # a defect of ours ends the following, and is its `trouble`
            if isinstance(self._trouble, StoreClosed):
                return
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS) if began == self._seen else _SHORTEST_PAUSE_SECONDS
            await asyncio.sleep(pause)
            with self._noting():
                await self._read()

    async def _watch(self, incarnation: int, after: int) -> None:
        with self._noting():
            async with aclosing(self._store.watch(self._keys.prefix, after=after)) as changes:
                async for change in changes:
                    self._apply(change, incarnation)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Keep the error of a store, a snapshot or another release as `trouble`: the version in use stays."""
        try:
            yield
        except ApportionError as error:
            self._trouble = error

    async def _confirm_often(self) -> None:
        while True:
            await asyncio.sleep(CONFIRM_SECONDS)
            async with self._confirming:
                await self._confirm()

    async def _confirm(self) -> None:
        """Ask the store for the newest version, and read it unless it is the one in use."""
        with self._noting():
            sent = self._clock.elapsed()
            scan = await self._store.scan(self._keys.head)
            if self._watching is not None and scan.incarnation != self._after[0]:
                self._watching.cancel()  # of another life, or, if it has just begun, of none that it knows
            newest = self._hear(scan.incarnation, {item.key: item.value for item in scan.items})
            if newest is not None and not (self._routes and self._routes.version >= newest):
                sent = self._clock.elapsed()
                scan = await self._store.scan(self._keys.prefix)
                if (scan.incarnation, scan.revision) >= self._seen:
                    newest = self._take(scan)
            self._confirmed(newest, sent)

    async def _read(self) -> None:
        """Read all keys of the name; the next watch begins at that revision."""
        sent = self._clock.elapsed()
        scan = await self._store.scan(self._keys.prefix)
        self._after = (scan.incarnation, scan.revision)
        self._confirmed(self._take(scan), sent)

    def _confirmed(self, newest: Version | None, sent: float) -> None:
        if newest is None or self._routes is None:
            return
        if self._routes.version == newest:
            self._confirmed_at, self._trouble, self._heard = sent, None, newest
        self._note_back(newest)

    def _note_back(self, newest: Version) -> None:
        """Set `trouble` when the numbers of the name went back."""
        if self._routes is not None and newest < self._routes.version:
            seen, found = f"version {self._routes.version}", f"version {newest}"
            self._trouble = StoreWentBack(f"table {self._keys.name}", seen, found)

    def _take(self, scan: Scan) -> Version | None:
        """Take the table that a scan shows, from its snapshot; return the version that the scan announces."""
        self._chunks = {item.key: item.value for item in scan.items}
        self._seen = (scan.incarnation, scan.revision)
        return self._show(at=None)

    def _apply(self, change: StoreChange, incarnation: int) -> None:
        """Take a change that a watch shows, unless a scan has shown it, or has shown another life of the store.

        A watch does not know the life of the store. If another scan of its handle accepts a new life while the watch
        begins, the watch belongs to the new life. So a head names the life in which it was published.
        """
        if (incarnation, change.revision) <= self._seen:
            return
        published = [
            decode_head(event.value) for event in change.events if event.value and event.key == self._keys.head
        ]
        if any(head.incarnation > incarnation for head in published):
            raise StoreWentBack(f"table {self._keys.name}", f"life {incarnation}", f"life {published[0].incarnation}")
        for event in change.events:
            if event.value is None:
                self._chunks.pop(event.key, None)
            else:
                self._chunks[event.key] = event.value
        self._seen = (incarnation, change.revision)
        newest = self._show(at=self._at)
        if newest is not None:
            self._note_back(newest)

    def _show(self, *, at: tuple[VersionLink, Routing] | None) -> Version | None:
        """Swap to the version that the chunks at hand announce, if it is newer. Return that version, or None."""
        newest = self._hear(self._seen[0], self._chunks)
        if newest is None or (self._routes is not None and newest <= self._routes.version):
            return newest
        head = decode_head(self._chunks[self._keys.head])
        value = resolved(head, self._keys, self._chunks, at=at)
        self._routes = Routes.of(newest, value, head.epoch, self._hasher)
        self._at = (head.links[-1], value)
        self._trouble = None
        self._swapped.set()
        self._swapped = asyncio.Event()
        return newest

    def _hear(self, incarnation: int, chunks: dict[str, bytes]) -> Version | None:
        """Return the version that a head announces, and remember it if it is the newest one."""
        if self._keys.head not in chunks:
            return None
        head = decode_head(chunks[self._keys.head])
        version = Version(incarnation=incarnation, number=head.version)
        self._check_link(version, head.links[-1])
        self._heard = version if self._heard is None else max(self._heard, version)
        return version

    def _check_link(self, version: Version, link: VersionLink) -> None:
        """Raise `StoreWentBack` when the number in use comes with another link: the number was given twice."""
        if self._at is not None and self.routes.version == version and self._at[0] != link:
            seen, found = f"version {version} ({self._at[0].nonce})", f"another version {version} ({link.nonce})"
            raise StoreWentBack(f"table {self._keys.name}", seen, found)


@asynccontextmanager
async def following(
    store: CoordinationStore,
    name: str,
    *,
    within_seconds: float = 10.0,
    hasher: str | Hasher | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Follower]:
    """Follow a name of an open store until the end of the block. Raises the errors of `Follower.start`."""
    follower = Follower(store, name, hasher=hasher, clock=clock)
    await follower.start(within_seconds=within_seconds)
    try:
        yield follower
    finally:
        await follower.close()
