"""Context: the stage of one case: a store in its own namespace, more handles, watches, members, and mishaps.

Promises: at the end of a case, handles are closed, processes are ended, and the server is up again. A case waits for a
condition, with a deadline. It waits for a fixed time only to see that a state lasts.
"""

import asyncio
import dataclasses
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing
from typing import Self, TypeVar, cast

from apportion.errors import NotPromised, StoreUnavailable
from apportion.runtime.clock import SystemClock
from apportion.sim.conformance.expect import holds
from apportion.sim.conformance.lossy import LossyHandle
from apportion.sim.conformance.proxy import Proxy
from apportion.sim.conformance.rig import Impossible, Rig
from apportion.stores import Capabilities, CoordinationStore, StoreChange, Unchanged
from apportion.stores.task_api import TaskStore

PATIENCE_SECONDS = 30.0
LATENESS_SECONDS = 2.0  # how late a store may be on a busy machine
_SHORTEST_TTL_SECONDS = 0.5  # with a shorter time, a pause of the machine could end the lease of a healthy holder
_POLL_SECONDS = 0.002
TASKS, TRANSACTIONS = PARTS = ("tasks", "transactions")  # parts of a store that its capabilities do not name
FIELDS = frozenset(field.name for field in dataclasses.fields(Capabilities))
_MEMBER = "apportion.sim.conformance.member"
Value = TypeVar("Value")


class Stage:
    """One case's own corner of a store; `store` is its first handle."""

    def __init__(self, rig: Rig, namespace: str, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.rig = rig
        self.namespace = namespace
        self.patience_seconds = patience_seconds
        self.clock: SystemClock = SystemClock()
        self.store: CoordinationStore
        self._kept: set[str] = set()
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._exits.__aenter__()
        self.store = await self.connect()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._exits.aclose()

    @property
    def able(self) -> Capabilities:
        """The promises of the store."""
        return self.store.capabilities()

    @property
    def ttl_seconds(self) -> float:
        """The shortest time to live that the store keeps and a busy machine can renew in time."""
        return max(self.able.min_ttl_seconds, _SHORTEST_TTL_SECONDS)

    async def connect(
        self, *, namespace: str | None = None, address: tuple[str, int] | None = None
    ) -> CoordinationStore:
        """Return one more handle, closed at the end of the case."""
        store = await self.rig.connect(namespace or self.namespace, address=address)
        self._exits.push_async_callback(store.close)
        return store

    async def connect_tasks(self, *, address: tuple[str, int] | None = None) -> TaskStore:
        """Return one more handle of the tasks, closed at the end; `Impossible` if the store keeps none."""
        try:
            tasks = await self.rig.connect_tasks(self.namespace, address=address)
        except NotPromised as error:
            raise Impossible(TASKS, "a store of this kind keeps no tasks") from error
        self._exits.push_async_callback(tasks.close)
        self._kept.add(TASKS)
        return tasks

    async def watch(self, prefix: str = "", *, after: int, store: CoordinationStore | None = None) -> "Tape":
        """Return a watch that records its changes."""
        tape = Tape(self, (store or self.store).watch(prefix, after=after))
        self._exits.push_async_callback(tape.stop)
        return tape

    def beside(self, deed: Coroutine[object, object, Value]) -> asyncio.Task[Value]:
        """Run a coroutine beside the case. It is cancelled at the end of the case, if it still runs."""
        task = asyncio.create_task(deed)

        async def _end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._exits.push_async_callback(_end)
        return task

    async def proxy(self) -> Proxy:
        """Return a proxy in front of the server; raise `Impossible` if the store has no server to connect to."""
        proxy = Proxy(self.rig.address())
        await proxy.open()
        self._exits.push_async_callback(proxy.close)
        return proxy

    async def line(self) -> LossyHandle:
        """Return a handle that can lose replies."""
        try:
            proxy = await self.proxy()
        except Impossible as impossible:
            self.excused(impossible)
            return LossyHandle(self.store, None)
        return LossyHandle(await self.connect(address=proxy.address), proxy)

    async def member(self, *words: str) -> "OtherProcess":
        """Start another process that uses the store; the words tell it how (see `member.py`)."""
        url = self.rig.url_elsewhere(self.namespace)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", _MEMBER, *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        member = OtherProcess(self, process)
        self._exits.push_async_callback(member.kill)
        # A URL may hold a password: on the command line, everyone on the machine would see it.
        cast(asyncio.StreamWriter, process.stdin).write(f"{url}\n".encode())
        return member

    async def crash(self) -> None:
        """Kill -9 the server and start it again. Where there is no server, kill a process that is busy with commits."""
        try:
            await self.rig.kill()
        except Impossible as impossible:
            self.excused(impossible)
            member = await self.member("pairs", "crash/")
            await member.works(3)
            await member.kill()
        else:
            await self.rig.start()

    def excused(self, impossible: Impossible) -> str:
        """Return the field of capabilities that excuses a rig; fail if the store promises this field."""
        field = impossible.capability
        lacks = field not in self._kept if field in PARTS else field in FIELDS and getattr(self.able, field) is not True
        if not lacks:
            raise AssertionError(f"the store promises this, and its rig cannot test it: {impossible}") from impossible
        return field

    async def until(self, condition: Callable[[], bool], claim: str, *, within: float | None = None) -> None:
        """Wait until a condition holds; fail with the claim if it does not hold in time."""
        within = self.patience_seconds if within is None else within
        ends = self.clock.elapsed() + within
        while not condition():
            holds(self.clock.elapsed() < ends, f"{claim}, within {within:g} s")
            await asyncio.sleep(_POLL_SECONDS)

    async def available(self, ask: Callable[[], Awaitable[Value]], *, within: float = 30.0) -> Value:
        """Repeat a request until the store is back and answers."""
        ends = self.clock.elapsed() + within
        while True:
            try:
                return await ask()
            except StoreUnavailable:
                if self.clock.elapsed() > ends:
                    raise
            await asyncio.sleep(10 * _POLL_SECONDS)

    async def keys(self, prefix: str = "") -> dict[str, bytes]:
        """Return the values under a prefix, by key; wait while the store is away."""
        found = await self.available(lambda: self.store.scan(prefix))
        return {item.key: item.value for item in found.items}

    async def unchanged(self, key: str) -> Unchanged:
        """Return the compare that a key is unchanged from now on."""
        found = await self.available(lambda: self.store.scan(key))
        return next(Unchanged(key=key, revision=item.revision) for item in found.items if item.key == key)


class Tape:
    """A watch, and all the changes that it has shown."""

    def __init__(self, stage: Stage, changes: AsyncGenerator[StoreChange, None]) -> None:
        self.changes: list[StoreChange] = []
        self._stage = stage
        self._playing = asyncio.create_task(self._play(changes))

    async def shows(self, revision: int, *, within: float | None = None) -> list[StoreChange]:
        """Wait until the watch has shown a revision; return all its changes up to now."""
        await self._stage.until(
            lambda: self._playing.done() or (self.changes and self.changes[-1].revision >= revision) is True,
            f"the watch shows revision {revision} (it showed {len(self.changes)} changes)",
            within=within,
        )
        if self._playing.done():
            await self._playing
        return self.changes

    async def ends(self) -> None:
        """Return when the watch has ended by itself; raise its error, if any."""
        await self._stage.until(self._playing.done, "the watch ends")
        await self._playing

    async def stop(self) -> None:
        """Cancel the watch, and fail unless it ends."""
        self._playing.cancel()
        _, pending = await asyncio.wait([self._playing], timeout=self._stage.patience_seconds)
        holds(not pending, "a watch that is cancelled ends")

    async def _play(self, changes: AsyncGenerator[StoreChange, None]) -> None:
        async with aclosing(changes):
            async for change in changes:
                self.changes.append(change)


class OtherProcess:
    """Another process that uses the store, and its output."""

    def __init__(self, stage: Stage, process: asyncio.subprocess.Process) -> None:
        self.said: list[str] = []
        self._stage = stage
        self._process = process
        self._listening = asyncio.create_task(self._listen())

    async def works(self, times: int) -> None:
        """Wait until it has reported this many steps."""
        await self._stage.until(lambda: len(self.said) >= times, "a member works")

    async def leaves(self) -> None:
        """Wait until it has ended well."""
        await self._stage.until(self._listening.done, "a member ends", within=3 * self._stage.patience_seconds)
        holds(await self._process.wait() == 0, "a member ends well")

    async def kill(self) -> None:
        """Kill it without warning, if it runs, and read its output up to then."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._listening

    async def _listen(self) -> None:
        stdout = cast(asyncio.StreamReader, self._process.stdout)
        while line := await stdout.readline():
            self.said.append(line.decode().strip())
