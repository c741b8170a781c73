"""A worker: one process that takes part in a group by the shipped driver, and works on its partitions.

It enters a partition, takes its time, writes to a guarded sink under the token, and leaves. Some workers listen to
changes, some ignore cancellation, and some leave from time to time and come back. In some worlds all visit another
group by the same session. They know no more than a user's program would.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from apportion.errors import DuplicateMember, LeaseLost, NotOwner, StoreDenied, StoreUnavailable, StoreWentBack
from apportion.groups.admin.acts import undrain
from apportion.groups.driver import Driver
from apportion.groups.membership import ask_to_leave
from apportion.groups.opening import Options
from apportion.groups.session import Sessions
from apportion.groups.view.records import DRAINED
from apportion.guards import note
from apportion.model.epoch import FencingToken
from apportion.sim.facts import Entered, Left
from apportion.sim.world.sink import Sink
from apportion.sim.world.world import World
from apportion.stores import CoordinationStore

POISON = 0  # the partition that kills its owners in some worlds
_POISON_SECONDS = 1.3
_OUTAGES = (LeaseLost, StoreDenied, StoreUnavailable, StoreWentBack)
_EARLY_TURNS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How a worker works: its longest time per partition, whether it listens to changes, and whether it is deaf.

    A deaf worker ignores that it is cancelled.
    """

    most_seconds: float
    listens: bool
    is_deaf: bool


class GroupWorker:
    """One process. `run` takes part again and again; a `spare` process does so until nothing fails any more."""

    def __init__(
        self,
        process: str,
        world: World,
        sink: Sink,
        options: Options,
        habits: Habits,
        *,
        spare: bool,
        dies: Callable[[str], None],
        beside: Options | None = None,
    ) -> None:
        self.driver: Driver | None = None
        self.process, self._spare, self._dies = process, spare, dies
        self._world, self._sink, self._options, self._habits = world, sink, options, habits
        self._store: CoordinationStore = world.store(process)
        self._sessions = Sessions(world.store(process), world.clock(process))
        self._beside, self._store_beside = beside, world.store(process)

    async def run(self) -> None:
        """Take part; after an end, come back a little later."""
        history = self._world.checker.history
        beside = None if self._beside is None else asyncio.create_task(self._visit(self._beside))
        while not (self._spare and history.calm_since is not None):
            try:
                how = "leaves" if await self._given_time(self._take_part()) else "given up"
            except DuplicateMember as error:
                how = type(error).__name__
            self._world.trace.cover(f"part ends: {how}")
            await asyncio.sleep(random.uniform(0.2, 2.0))
        if beside is not None:
            await beside

    async def leave(self) -> None:
        """Hand everything over, and go."""
        if self.driver is not None:
            self.driver.leave()

    async def drain(self, member_id: str) -> None:
        """Ask a member for its partitions, as an operator does from anywhere."""
        if self.driver is not None:
            try:
                await ask_to_leave(self._store, self.driver.view, member_id, DRAINED)
            except _OUTAGES:
                return

    async def undrain(self, member_id: str) -> None:
        """Withdraw such a request, as an operator does from anywhere."""
        await undrain(self._store, self._options.group, member_id, "the store")

    async def _visit(self, options: Options) -> None:
        """Visit another group by the same session, for a while, again and again, until nothing fails any more."""
        loop = asyncio.get_running_loop()
        while self._world.checker.history.calm_since is None:
            driver = self._driver(options)
            loop.call_later(random.uniform(0.2, 4.0), driver.leave)
            try:
                await self._given_time(_lived(driver))
                self._world.trace.cover("visit ends")
            except DuplicateMember as error:
                self._world.trace.cover(f"visit ends: {type(error).__name__}")
            await asyncio.sleep(random.uniform(0.1, 1.0))

    def _driver(self, options: Options) -> Driver:
        store = self._store if options is self._options else self._store_beside
        return Driver(store, self._sessions, self._world.clock(self.process), options)

    async def _given_time(self, part: Coroutine[Any, Any, None]) -> bool:
        """Take part in a task that may be cancelled at any turn of the loop; return whether it came to its end."""
        task, loop, troubles = asyncio.ensure_future(part), self._world.loop, self._world.troubles
        if troubles.happens(troubles.odds.cancelled, "cancelled", self.process):
            early = random.random() < 0.5
            turns = random.randint(1, _EARLY_TURNS if early else 10 * _EARLY_TURNS)
            loop.at_step(loop.steps + turns, task.cancel)
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
        return not task.cancelled()

    async def _take_part(self) -> None:
        self.driver = driver = self._driver(self._options)
        tasks = [asyncio.create_task(self._work(driver))]
        if self._habits.listens:
            tasks.append(asyncio.create_task(self._listen(driver)))
        try:
            await _lived(driver)
        finally:
            self.driver = None
            for task in tasks:
                task.cancel()

    async def _listen(self, driver: Driver) -> None:
        """Take the changes one after another, each for some time."""
        driver.holdings.consume()
        while True:
            change = driver.holdings.next_change()
            if change is None:
                await driver.turn()
            elif driver.holdings.tell(change):
                await asyncio.sleep(random.uniform(0, self._habits.most_seconds))

    async def _work(self, driver: Driver) -> None:
        turn = 0
        holds: set[asyncio.Task[None]] = set()
        while True:
            owned = list(driver.holdings)
            if owned:
                turn += 1
                hold = asyncio.create_task(self._hold(driver, owned[turn % len(owned)]))
                holds.add(hold)
                hold.add_done_callback(holds.discard)
            await asyncio.sleep(random.uniform(0.1, 0.5))

    async def _hold(self, driver: Driver, partition: int) -> None:
        """Work on one partition, as a user does with `async with group.hold(partition) as token`."""
        work = asyncio.current_task()

        def _cancel() -> None:
            if work is not None and not self._habits.is_deaf:
                work.cancel()

        try:
            token, hold = driver.holdings.enter(partition, _cancel)
        except NotOwner:
            return
        note(token)  # because the sink is a guard
        since = driver.holdings[partition].since
        number = self._entered(since, token)
        if partition == POISON and self._world.clock(self.process).elapsed() - since > _POISON_SECONDS:
            self._dies(self.process)
        try:
            await asyncio.sleep(random.uniform(0, self._habits.most_seconds))
            await self._write(token)
        finally:
            self._world.record(Left(at=self._world.now, hold=number))
            driver.holdings.leave(hold)

    def _entered(self, since: float, token: FencingToken) -> int:
        number = self._world.troubles.number()
        self._world.record(
            Entered(
                at=self._world.now,
                hold=number,
                process=self.process,
                resource=token.resource,
                holder=token.holder,
                incarnation=token.incarnation,
                epoch=token.epoch,
                since=since,
            )
        )
        return number

    async def _write(self, token: FencingToken) -> None:
        accepted = await self._sink.write(token)
        self._world.trace.cover("wrote" if accepted else "fenced off" if accepted is False else "wrote, perhaps")


async def _lived(driver: Driver) -> None:
    """Run a member to its end. A refusal before its first session ends it: a caller sees the error, and tries again."""
    try:
        await driver.run()
    except StoreDenied:
        if driver.statistics.sessions:
            raise
